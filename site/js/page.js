// What every page does: a link into a folded part opens it, and a link to a tab chooses it.
const follow = () => {
  let part = null;
  try {
    part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  } catch {
    return; // no address of a part
  }
  if (part?.name?.startsWith("__tabbed_")) part.checked = true;
  while ((part = part?.closest("details"))) {
    part.open = true;
    part = part.parentElement;
  }
};
addEventListener("hashchange", follow);
follow();
