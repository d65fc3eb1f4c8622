// A checkpoint's facts: those of the first stand in the page, those of another in its record.

// A number that is written as a float, so that 12.0 does not turn into 12.
export class Float extends Number {}

const keepFloats = (_, value, context) =>
  typeof value === "number" && /[.e]/i.test(context?.source ?? "") ? new Float(value) : value;

const kept = new Map();

export async function fetchRecord(url) {
  if (!kept.has(url)) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${answer.status}: ${url}`);
    kept.set(url, JSON.parse(await answer.text(), keepFloats));
  }
  return kept.get(url);
}

// "0–2, 5" as a set of numbers.
export function layerSet(spans) {
  const found = new Set();
  for (const span of spans.split(", ").filter(Boolean)) {
    const [from, to = from] = span.split("–").map(Number);
    for (let layer = from; layer <= to; layer += 1) found.add(layer);
  }
  return found;
}

// A fact: axes, dtype, the layers that have it (null for all), why it is absent; the place where the page does not say.
export function factsInPage() {
  const facts = new Map();
  for (const row of document.querySelectorAll(".nn-values tr[data-value]")) {
    const { value, axes, dtype, layers } = row.dataset;
    facts.set(value, {
      axes: axes ? axes.split(" ") : [], dtype, place: null, absent: layers === "none" ? "" : null,
      layers: layers && layers !== "none" ? layerSet(layers) : null,
    });
  }
  return facts;
}

export function factsOf(record) {
  const facts = new Map();
  for (const value of record.values)
    facts.set(`${value.host}.${value.name}`, { ...value, place: value, layers: layersOf(record, value) });
  return facts;
}

// A run read every block; a reference the first of each kind, which speaks for all of its kind.
function layersOf(record, value) {
  if (!value.layers) return null;
  if (record.kind === "run") return new Set(value.layers);
  const read = new Set(value.layers);
  return new Set(record.kinds.filter((kind) => kind.layers.some((layer) => read.has(layer))).flatMap((kind) => kind.layers));
}

export function sizesInPage(root) {
  const sizes = {};
  for (const row of root.querySelectorAll(".nn-sizes div"))
    sizes[row.querySelector("dt").textContent] = Number(row.querySelector("dd").textContent);
  return sizes;
}
