// What a card says of a part: a value, a module, an operation or an add. Facts are those of the page and of the record.
import { inBytes } from "./explore-numbers.js";

const NOTHING = { name: "", about: "", expression: "", rows: [], link: null };
const plain = (words) => words.replace(/\s+/g, " ").trim();
const text = (node) => plain(node?.textContent ?? "");
// The words of a node itself, without its links, buttons and notes.
const own = (node) => plain([...(node?.childNodes ?? [])].map((each) => (each.nodeType === 3 ? each.data : each.tagName === "WBR" ? "" : " ")).join(""));

export function factsFor(part, state) {
  const { value, module, operator, add } = part.dataset;
  if (value) return ofValue(value, state);
  if (module) return ofModule(part, state);
  return ofLaw(part, operator ?? "+", add, state);
}

const inLayer = (path, state) => path.replace("[i]", `[${state.layer}]`);

function ofValue(key, state) {
  const row = document.querySelector(`.nn-values tr[data-value="${key}"]`);
  if (!row) return { ...NOTHING, name: key };
  const name = key.slice(key.indexOf(".") + 1);
  const fact = state.facts.get(key);
  const numbers = state.numbers(fact);
  const layout = `${text(row.querySelector(".nn-layout"))}${fact?.axes.length ? ` [${fact.axes.join(" ")}]` : ""}`;
  const rows = [["layout", "", layout]];
  if (numbers) {
    const { batch, seq } = state.call;
    rows.push([`${batch} × ${seq}`, "", numbers.shape], ["numbers", "", numbers.count.toLocaleString("en")]);
    if (numbers.bytes !== null) rows.push(["memory", "", `${inBytes(numbers.bytes)} in ${numbers.dtype}`]);
  }
  rows.push(["read at", ...placeOf(row, fact?.place)], ["loads", loadsOf(row, state, fact)]);
  rows.push(["access", own(row.querySelector(".nn-access"))]);
  if (fact?.layers) rows.push(["blocks", `${fact.layers.size} of ${state.choice.layers}`]);
  return {
    name, rows, about: fact?.place?.description ?? own(row.cells[2]), expression: `${inLayer(row.dataset.path, state)}.${name}`,
    link: { href: `#${row.id}`, says: "its row" },
  };
}

function placeOf(row, place) {
  if (place) return [place.words ?? "computed from the call", place.address ?? (place.reader && `reader ${place.reader}`)];
  const shown = row.querySelector(".nn-place");
  const code = text(shown.querySelector("code"));
  const native = text(shown.querySelector(".nn-native"));
  return [text(shown).replace(native, "").replace(code, "").trim(), code];
}

function loadsOf(row, state, fact) {
  const probes = state.record?.kind === "run" ? Object.entries(fact?.readable ?? {}) : [];
  if (probes.length) {
    const there = probes.filter(([, found]) => found).map(([load]) => load);
    if (there.length === probes.length) return `all ${probes.length} that were probed`;
    return there.length ? `${there.join(", ")}; not under the other ${probes.length - there.length}` : "none that was probed";
  }
  const condition = row.querySelector(".nn-condition");
  return condition ? own(condition) : "all that were probed";
}

function ofModule(part, state) {
  const host = part.dataset.module;
  const heading = document.querySelector(`#host-${host} h4`);
  const owner = inLayer(text(heading?.querySelector("code")), state);
  const title = text(part.querySelector(".nn-panel-name"));
  const native = text(part.querySelector(".nn-panel-class"));
  const virtual = part.closest("svg").querySelector(".nn-virtual") && !native;
  if ("state" in part.dataset)
    return { ...NOTHING, name: title, about: "What a token writes stays for the next: the state after a token is where the next one starts.", link: { href: `#host-${host}`, says: "its values" } };
  const child = part.dataset.child;
  const inside = [...state.facts].filter(([key, fact]) => key.startsWith(`${host}.`) && fact.absent === null && (!fact.layers || fact.layers.has(state.layer)));
  const rows = [["class", native ? "" : virtual ? "no module of its own" : "", native], ["values", child || title !== host ? "" : `${inside.length}`]];
  const expression = title === host ? owner : child ? `${owner}.${child}` : "";
  return { ...NOTHING, name: title, expression, rows, link: { href: `#host-${host}`, says: "its values" } };
}

// A law's row; of one that reads otherwise on some checkpoints, which are rows below the first, the chosen one's.
function lawOn(first, slug) {
  for (let row = first; row?.dataset.of !== undefined && (row === first || !row.id); row = row.nextElementSibling)
    if (row.dataset.of.split(" ").includes(slug)) return row;
  return first;
}

function ofLaw(part, operator, added, state) {
  const id = part.getAttribute("href")?.slice(1) ?? "";
  const law = id.startsWith("law-") ? lawOn(document.getElementById(id), state.choice.slug) : null;
  const { target, key } = part.dataset;
  const rows = [];
  if (key) {
    const number = [...document.querySelectorAll(".nn-config tr")].find((row) => text(row.cells[0]) === key);
    rows.push(["config", "", `${key} = ${text(number?.cells[1])}`]);
  }
  if (law) {
    rows.push(["law", "", text(law.querySelector(".nn-formula"))]);
    const error = text(law.querySelector(".nn-measure b"));
    rows.push(["error", error === "exact" ? "none: it holds exactly" : error]);
  }
  const path = target && document.querySelector(`.nn-values tr[data-value$=".${target}"]`)?.dataset.path;
  return {
    name: added ? "+" : operator, rows,
    about: added ? `${added} is added to the residual stream.` : target ? `On the way to ${target}.` : own(law?.querySelector(".nn-access")),
    expression: path ? `${inLayer(path, state)}.${target}` : "",
    link: law ? { href: `#${id}`, says: "its law" } : null,
  };
}
