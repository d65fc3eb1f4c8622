// What of a page is a checkpoint's own, put there from its record: sizes, config, printout, and its values' rows.
import { broken } from "./explore-breaks.js";
import { Float } from "./explore-record.js";
import { counted, inBytes } from "./explore-numbers.js";

const element = (name, className, ...inside) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...inside);
  return made;
};

export function showCheckpoint(root, { record }) {
  for (const name of document.querySelectorAll(".nn-chosen")) name.textContent = record.origin.name;
  showSizes(root.querySelector(".nn-sizes"), record);
  showConfig(document.querySelector(".nn-config-tables"), record);
  showPrintout(document.querySelector(".nn-printout pre"), record);
  for (const number of root.querySelectorAll("[data-config]")) {
    const row = record.config.find((each) => each.key === number.dataset.config);
    number.textContent = row ? shown(row.value) : "";
  }
}

function showSizes(list, record) {
  list.setAttribute("aria-label", `Sizes of ${record.origin.name}`);
  const rows = [...Object.entries(record.sizes), ["parameters", counted(record.parameters)]];
  list.replaceChildren(...rows.map(([name, size]) => element("div", "", element("dt", "", name), element("dd", "", String(size)))));
}

function showConfig(box, record) {
  const said = record.config.filter((row) => row.origin !== "defaults");
  const defaults = record.config.filter((row) => row.origin === "defaults");
  const parts = said.length ? [configTable(said)] : [];
  if (defaults.length) {
    const summary = element("summary", "", `${defaults.length} more keys, at the config class's defaults`);
    const details = element("details", "nn-details", summary, configTable(defaults));
    details.open = box.querySelector("details")?.open ?? !said.length;
    parts.push(details);
  }
  box.replaceChildren(...parts);
}

// A name that may be broken after its underscores.
const steps = (name) => broken(name, /(?<=[^_]_)(?=[^_])/);

function configTable(rows) {
  const cell = (name, scope, text) => {
    const made = element(name, "", ...[text].flat());
    if (scope) made.scope = scope;
    return made;
  };
  const head = element("thead", "", element("tr", "", ...["key", "value", "from"].map((text) => cell("th", "col", text))));
  const body = rows.map((row) =>
    element("tr", "", cell("th", "row", steps(row.key)), cell("td", "", shown(row.value)), cell("td", "", row.origin)));
  return element("table", "nn-table nn-config", head, element("tbody", "", ...body));
}

function showPrintout(pre, record) {
  pre.setAttribute("aria-label", `Printout of ${record.origin.name}`);
  const code = pre.querySelector("code");
  code.replaceChildren();
  for (const line of record.printout.split("\n")) {
    const [, space, name, arrow, axes, says] = line.match(/^(\s*)\((\w+)\)( -> )?([^:]*)(: .*)?$/) ?? [];
    if (says && (arrow || name === "input_size"))
      code.append(`${space}(`, element("b", "", name), `)${arrow ?? ""}`, element("i", "", axes), element("s", "", says), "\n");
    else code.append(`${line}\n`);
  }
}

// A config value as Python prints it, long lists cut to their ends.
export function shown(value) {
  if (Array.isArray(value) && value.length > 8) {
    const ends = value.slice(0, 3).map(shown).join(", ");
    return `[${ends}, … ${shown(value.at(-1))}] (${value.length} values)`;
  }
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (value instanceof Float) return written(value);
  if (Array.isArray(value)) return dumped(value);
  if (typeof value === "object")
    return `{${Object.entries(value).map(([key, item]) => `${key}: ${shown(item)}`).join(", ")}}`;
  return String(value);
}

function dumped(value) {
  if (Array.isArray(value)) return `[${value.map(dumped).join(", ")}]`;
  return value instanceof Float ? written(value) : JSON.stringify(value);
}

function written(float) {
  const [digits, power] = Number(float).toExponential().split("e");
  if (power < -4 || power >= 16) return `${digits}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  return Number.isInteger(Number(float)) ? `${float}.0` : String(float);
}

// The rows of the values: numbers of the call, and where the chosen block or checkpoint lacks the value.
export function showRows(state) {
  const { batch, seq } = state.call;
  document.querySelector(".nn-call")?.replaceChildren(` for ${batch} × ${seq} tokens`);
  for (const row of document.querySelectorAll(".nn-values tr[data-value]")) {
    const fact = state.facts.get(row.dataset.value);
    const numbers = state.numbers(fact);
    let sized = row.querySelector(".nn-axes--sized");
    if (numbers && !sized) {
      sized = element("span", "nn-axes nn-axes--sized");
      row.cells[1].append(" ", sized);
    }
    if (numbers) sized.replaceChildren(numbers.shape, ...(numbers.bytes === null ? [] : [" ", element("small", "", inBytes(numbers.bytes))]));
    else if (sized && state.record) sized.replaceChildren();
    let why = "";
    if (!fact || fact.absent !== null) why = `not on ${state.choice.name}${fact?.absent ? `: ${fact.absent}` : ""}`;
    else if (row.dataset.path.includes("[i]") && fact.layers && !fact.layers.has(state.layer)) why = `not in layers[${state.layer}]`;
    row.classList.toggle("nn-elsewhere", Boolean(why));
    let note = row.querySelector(".nn-lacks");
    if (why && !note) row.cells[2].append(" ", (note = element("span", "nn-some nn-lacks")));
    if (note) note.textContent = why;
  }
}
