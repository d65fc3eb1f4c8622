// A link into a folded part opens it.
const unfold = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target?.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
};
addEventListener("hashchange", unfold);
unfold();
