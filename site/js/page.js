// A link into a folded part opens it.
const unfold = () => {
  let part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  while ((part = part?.closest("details"))) {
    part.open = true;
    part = part.parentElement;
  }
};
addEventListener("hashchange", unfold);
unfold();

// The theme's search dialog has no name of its own.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
