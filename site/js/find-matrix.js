// The matrix: arrow keys move from cell to cell, and what stands behind a cell is told below the table.

const table = document.querySelector(".nn-overview");
const rows = table ? [...table.querySelectorAll("tbody tr[id]")].map(row => [...row.querySelectorAll("td > a")]) : [];
const heads = table ? [...table.querySelectorAll("thead th a")] : [];
const tell = document.createElement("div");
let at = null;
let touched = false;

function where(cell) {
  const row = rows.findIndex(cells => cells.includes(cell));
  return [row, rows[row].indexOf(cell)];
}

function name(cell) {
  const [row, column] = where(cell);
  const head = rows[row][0].closest("tr").querySelector("th a");
  return {family: heads[column], value: head};
}

/** Say what stands behind a cell; with `links`, also where to read on, for those who cannot point and click. */
function say(cell, links) {
  at?.classList.remove("nn-at");
  at = cell;
  if (!cell) return tell.replaceChildren();
  const {family, value} = name(cell);
  const line = document.createElement("p");
  const head = Object.assign(document.createElement("b"), {textContent: `${family.textContent} · ${value.textContent}`});
  const why = cell.dataset.why && document.querySelector(`#why-${cell.dataset.why} .nn-why > span`);
  const state = cell.querySelector("b").textContent;
  line.append(head, " ", why ? `${state}: ${why.textContent}` : state);
  tell.replaceChildren(line);
  if (links) {
    cell.classList.add("nn-at");
    const more = document.createElement("p");
    for (const [text, href] of [[`On ${family.textContent}'s page`, cell.href], [`All of ${value.textContent}`, value.href]])
      more.append(Object.assign(document.createElement("a"), {href, textContent: text}));
    tell.append(more);
  }
}

/** One cell is in the order of the Tab key: the one that was last reached. */
function enter(cell) {
  table.querySelector("td > a[tabindex='0']")?.setAttribute("tabindex", "-1");
  cell.setAttribute("tabindex", "0");
}

const STEPS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};

function move(event) {
  const cell = event.target.closest("td > a");
  if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
  const [row, column] = where(cell);
  let next = null;
  if (STEPS[event.key]) next = rows[row + STEPS[event.key][0]]?.[column + STEPS[event.key][1]];
  else if (event.key === "Home") next = rows[row][0];
  else if (event.key === "End") next = rows[row].at(-1);
  else if (event.key === "Escape") say(null);
  else return;
  event.preventDefault();
  if (next) {
    enter(next);
    next.focus();
    next.scrollIntoView({block: "nearest", inline: "nearest"});
  }
}

if (rows.length) {
  tell.className = "nn-tell";
  tell.setAttribute("role", "status");
  table.closest(".nn-overview-box").after(tell);
  for (const cell of rows.flat()) cell.setAttribute("tabindex", "-1");
  enter(rows[0][0]);
  table.addEventListener("keydown", move);
  table.addEventListener("focusin", event => {
    const cell = event.target.closest("td > a");
    if (cell && !touched) say(cell, false);
  });
  table.addEventListener("focusout", () => touched || say(null));
  table.addEventListener("pointerover", event => {
    if (event.pointerType === "mouse") say(event.target.closest("td > a"), false);
  });
  table.addEventListener("pointerleave", event => event.pointerType === "mouse" && say(null));
  // a finger cannot point without pressing: a tap tells, and the links that it offers lead on
  document.addEventListener("pointerdown", event => (touched = event.pointerType !== "mouse"));
  table.addEventListener("click", event => {
    const cell = event.target.closest("td > a");
    if (!cell || !touched || event.detail === 0) return;
    event.preventDefault();
    enter(cell);
    say(cell, true);
  });
  document.addEventListener("click", event => {
    if (touched && !event.target.closest(".nn-overview, .nn-tell")) say(null);
  });
}
