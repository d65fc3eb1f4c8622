// The search: a dialog over the names file of nnpedia.finding.names, which is fetched when a reader goes for it.

const ROOT = new URL("..", import.meta.url);
const KINDS = {value: "value", law: "law", family: "family", badge: "badge", text: "text"};
// of two that fit a query alike, the one that is more often what is meant
const LIKELY = {value: 8, family: 6, law: 4, badge: 3, text: 0};
const SHOWN = 40;
let names = null;

/** A name as the file writes it: in small letters, `#` for a block's number. */
const plain = text =>
  text.toLowerCase().replace(/\[(?:i|\d+)\]/g, ".#").replace(/\.(?:\{layer\}|\d+)(?=\.|$)/g, ".#").trim();

function fetched() {
  names ??= fetch(new URL("find/names.json", ROOT))
    .then(answer => answer.json())
    .then(found =>
      found.map(([kind, title, url, says, terms, text]) => ({
        kind, title, url, says, terms,
        known: [title, ...terms].map(plain),
        said: plain(`${says} ${text}`),
        text,
      }))
    )
    .catch(() => {
      names = null; // the next key tries again
      return null;
    });
  return names;
}

const EDGE = /[\s./_()#-]/;

/** How well a word fits one name: all of it, its end, its start, the start of a part, or somewhere within. */
function fit(word, name) {
  if (name === word) return 100;
  const at = name.indexOf(word);
  if (at < 0) return 0;
  const share = (10 * word.length) / name.length;
  if (name.endsWith(word) && /[./]/.test(name[name.length - word.length - 1] ?? "")) return 80 + share;
  if (at === 0) return 65 + share;
  if (EDGE.test(name[at - 1])) return 50 + share;
  return 25 + share;
}

function rate(entry, words) {
  let sum = 0;
  let through = null;
  for (const word of words) {
    let best = 0;
    entry.known.forEach((name, index) => {
      const found = fit(word, name) + (index < 2 && name === word ? 4 : 0); // its own name before another of its names
      if (found <= best) return;
      best = found;
      through = index ? entry.terms[index - 1] : null;
    });
    if (!best) {
      const at = entry.said.indexOf(word);
      best = at < 0 ? 0 : at === 0 || EDGE.test(entry.said[at - 1]) ? 14 : 6;
    }
    if (!best) return null;
    sum += best;
  }
  return {entry, through, score: sum / words.length + LIKELY[entry.kind]};
}

/** The entries that fit every word of a query, the best first. */
export function search(entries, query) {
  const words = plain(query).split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return entries.map(entry => rate(entry, words)).filter(Boolean).sort((one, other) => other.score - one.score);
}

/** How many letters to put in, take out, change or swap with the next; `Infinity` when more than `most`. */
function slips(one, other, most) {
  if (Math.abs(one.length - other.length) > most) return Infinity;
  let [before, last] = [[], [...Array(other.length + 1).keys()]];
  for (let row = 1; row <= one.length; row++) {
    const next = [row];
    for (let column = 1; column <= other.length; column++) {
      const same = one[row - 1] === other[column - 1];
      next[column] = Math.min(last[column] + 1, next[column - 1] + 1, last[column - 1] + !same);
      if (row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1])
        next[column] = Math.min(next[column], before[column - 2] + 1);
    }
    if (Math.min(...next) > most) return Infinity;
    [before, last] = [last, next];
  }
  return last[other.length] > most ? Infinity : last[other.length];
}

/** For a query that nothing fits: the entries with a name a slip or two away, the closest first. */
export function near(entries, query) {
  const asked = plain(query);
  const most = asked.length < 5 ? 1 : 2;
  if (asked.length < 3) return [];
  return entries
    .map(entry => {
      const names = entry.known.flatMap(name => [name, name.split(/[./]/).at(-1)]);
      return {entry, through: null, score: Math.min(...names.map(name => slips(asked, name, most)))};
    })
    .filter(each => each.score <= most)
    .sort((one, other) => one.score - other.score || LIKELY[other.entry.kind] - LIKELY[one.entry.kind])
    .slice(0, 5);
}

const make = (tag, given = {}, ...inside) => {
  const node = Object.assign(document.createElement(tag), given);
  node.append(...inside);
  return node;
};

/** Text around the first word of a query that is in it. */
function excerpt(text, words) {
  const small = text.toLowerCase();
  const at = Math.max(0, ...words.map(word => small.indexOf(word)));
  const from = at > 60 ? small.indexOf(" ", at - 50) + 1 : 0;
  return `${from ? "… " : ""}${text.slice(from, from + 170)}${text.length > from + 170 ? " …" : ""}`;
}

function item({entry, through}, words) {
  const code = entry.kind === "value" || entry.kind === "law";
  const head = make("b", {className: code ? "nn-found-code" : ""}, entry.title);
  const kind = make("i", {}, entry.kind === "text" && entry.says ? entry.says : KINDS[entry.kind]);
  const says = entry.kind === "text" ? excerpt(entry.text, words) : entry.says;
  const link = make("a", {href: new URL(entry.url, ROOT).href}, head, " ", kind, make("span", {}, says));
  if (through && plain(through) !== plain(entry.title)) link.append(make("code", {}, through));
  return make("li", {}, link);
}

function dialog() {
  const input = make("input", {
    type: "search", name: "q", autocomplete: "off", spellcheck: false, enterKeyHint: "go",
    placeholder: "A value, class, module path, hook, checkpoint",
  });
  input.setAttribute("aria-label", "Search");
  input.setAttribute("autocapitalize", "none");
  const list = make("ul");
  const told = make("p");
  told.setAttribute("role", "status");
  const close = make("button", {type: "button"}, "Close");
  const box = make("dialog", {className: "nn-search"}, make("form", {}, input, close), told, list);
  box.setAttribute("aria-label", "Search");
  document.body.append(box);

  const show = async () => {
    const query = input.value;
    const entries = await fetched();
    if (query !== input.value) return; // more was typed meanwhile
    if (!entries) return void (told.textContent = "The names could not be fetched.");
    const fitting = search(entries, query);
    const found = fitting.length ? fitting : near(entries, query);
    const words = plain(query).split(/\s+/).filter(Boolean);
    list.replaceChildren(...found.slice(0, SHOWN).map(each => item(each, words)));
    list.scrollTop = 0;
    const many = found.length > SHOWN ? `, the best ${SHOWN} shown` : "";
    told.textContent = !words.length
      ? "Names as transformers, TransformerLens or this site write them: mlp.gate, hook_pattern, PhimoeSparseMoeBlock."
      : !fitting.length ? `Nothing has this name${found.length ? "; close to it" : ""}.`
      : `${found.length} ${found.length === 1 ? "result" : "results"}${many}`;
  };

  const links = () => [...list.querySelectorAll("a")];
  box.addEventListener("keydown", event => {
    const all = links();
    const at = all.indexOf(document.activeElement);
    if (event.key === "ArrowDown") (all[at + 1] ?? all.at(-1))?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? all[at - 1] : input).focus();
    else if (event.key === "Escape") box.close(); // which in a search field with text would clear it first
    else return;
    event.preventDefault();
  });
  input.addEventListener("input", show);
  box.querySelector("form").addEventListener("submit", event => {
    event.preventDefault();
    show().then(() => links()[0]?.click());
  });
  close.addEventListener("click", () => box.close());
  box.addEventListener("click", event => {
    // the dialog itself is under the pointer only outside of what is in it; a link within the page stays on it
    if (event.target === box || event.target.closest("a")) box.close();
  });
  return {box, input, show};
}

function start() {
  const header = document.querySelector(".md-header__inner");
  if (!header) return;
  let made = null;
  const open = (query = "") => {
    made ??= dialog();
    if (query) made.input.value = query;
    if (!made.box.open) made.box.showModal();
    made.input.select();
    made.show();
  };
  const button = make("button", {type: "button", className: "nn-search-open"}, make("span", {}, "Search"), make("kbd", {}, "/"));
  button.setAttribute("aria-label", "Search");
  button.setAttribute("aria-haspopup", "dialog");
  button.setAttribute("aria-keyshortcuts", "/ Control+K");
  button.addEventListener("click", () => open());
  for (const nearing of ["pointerenter", "focus"]) button.addEventListener(nearing, fetched, {once: true});
  header.append(button);
  addEventListener("keydown", event => {
    const writing = event.target.closest?.("input:not([type=checkbox], [type=radio], [type=range]), textarea, select");
    const asked = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !writing;
    if (!asked && !((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k")) return;
    event.preventDefault();
    open();
  });
  const asked = new URLSearchParams(location.search).get("q");
  if (asked) open(asked);
}

start();
