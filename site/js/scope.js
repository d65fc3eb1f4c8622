// What the theme's bundle keeps its choices with: JSON in the browser's storage, under the site's path.
// Globals, since the bundle looks for them there; this script stands in `js/`, one below the site's root.
window.__md_scope = new URL("..", document.currentScript.src);
window.__md_get = (key, storage = localStorage, scope = window.__md_scope) => {
  try {
    return JSON.parse(storage.getItem(`${scope.pathname}.${key}`));
  } catch {
    return null; // storage is closed to this page, or somebody else wrote there
  }
};
window.__md_set = (key, value, storage = localStorage, scope = window.__md_scope) => {
  try {
    storage.setItem(`${scope.pathname}.${key}`, JSON.stringify(value));
  } catch {
    // storage is closed or full: the choice lasts as long as the page
  }
};
window.__md_hash = (text) => [...text].reduce((sum, each) => (sum << 5) - sum + each.charCodeAt(0), 0);
