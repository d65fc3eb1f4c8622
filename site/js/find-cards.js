// The filters of the families' cards: what is chosen stands in the page's URL, and a card shows that has all of it.

const form = document.querySelector(".nn-filter");
const cards = [...document.querySelectorAll(".nn-card[data-family]")];

const boxes = form ? [...form.querySelectorAll("input[type=checkbox]")] : [];
const counts = new Map(boxes.map(box => [box, box.closest("label").querySelector("small")]));
const facets = [...new Set(boxes.map(box => box.name))];
// a card holds a digit for each option of a facet, in the options' order
const place = new Map(facets.flatMap(name => boxes.filter(box => box.name === name).map((box, index) => [box, index])));

const has = (card, box) => card.dataset[box.name][place.get(box)] === "1";
const chosen = () => boxes.filter(box => box.checked);

function show() {
  const wanted = chosen();
  const fits = cards.filter(card => wanted.every(box => has(card, box)));
  const names = new Set(fits.map(card => card.dataset.family));
  for (const each of document.querySelectorAll("[data-family]")) each.hidden = !names.has(each.dataset.family);
  for (const box of boxes) {
    const number = fits.filter(card => has(card, box)).length;
    counts.get(box).textContent = number;
    box.disabled = !number && !box.checked;
  }
  const all = cards.length;
  form.querySelector("output").textContent = wanted.length ? `${fits.length} of ${all} families` : `${all} families`;
  form.querySelector("button[type=reset]").hidden = !wanted.length;
  document.querySelector(".nn-none").hidden = fits.length > 0;
  for (const facet of form.querySelectorAll(".nn-facet")) {
    const number = facet.querySelectorAll("input:checked").length;
    const summary = facet.querySelector("summary");
    summary.dataset.title ??= summary.textContent;
    summary.textContent = number ? `${summary.dataset.title} (${number})` : summary.dataset.title;
  }
  list(wanted);
}

function list(wanted) {
  const chips = wanted.map(box => {
    const title = box.closest("label").querySelector("span").textContent;
    const button = Object.assign(document.createElement("button"), {type: "button", textContent: `${title} ×`});
    button.setAttribute("aria-label", `Remove ${title}`);
    button.addEventListener("click", () => {
      const index = wanted.indexOf(box);
      box.checked = false;
      changed();
      const left = form.querySelectorAll(".nn-picked button");
      (left[Math.min(index, left.length - 1)] ?? form.querySelector("summary, input")).focus();
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  });
  const chips_list = form.querySelector(".nn-picked");
  chips_list.replaceChildren(...chips);
  chips_list.hidden = !chips.length;
}

function changed() {
  const url = new URL(location);
  for (const name of facets) {
    const values = chosen().filter(box => box.name === name).map(box => box.value);
    if (values.length) url.searchParams.set(name, values.join(","));
    else url.searchParams.delete(name);
  }
  // commas read better than their escapes, and mean the same
  history.replaceState(null, "", url.href.replaceAll("%2C", ","));
  show();
}

function read() {
  const asked = new URLSearchParams(location.search);
  for (const box of boxes) box.checked = (asked.get(box.name) ?? "").split(",").includes(box.value);
  show();
}

function shut(but) {
  for (const facet of form.querySelectorAll(".nn-facet[open]")) if (facet !== but) facet.open = false;
}

if (form && cards.length) {
  form.hidden = false;
  form.addEventListener("change", changed);
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", event => {
    event.preventDefault();
    for (const box of boxes) box.checked = false;
    changed();
    form.querySelector("summary, input").focus();
  });
  form.addEventListener("keydown", event => {
    const open = event.key === "Escape" && form.querySelector(".nn-facet[open]");
    if (!open) return;
    open.open = false;
    open.querySelector("summary").focus();
  });
  document.addEventListener("pointerdown", event => shut(event.target.closest?.(".nn-facet")));
  form.addEventListener("focusin", event => shut(event.target.closest(".nn-facet")));
  addEventListener("popstate", read);
  read();
}
