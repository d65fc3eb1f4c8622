// Two or three families side by side, from their records under api/v1; which ones stands in the page's URL.

const form = document.querySelector(".nn-compare");
const place = document.querySelector(".nn-compared");
const selects = form ? [...form.querySelectorAll("select")] : [];
const records = new Map();

const make = (tag, given = {}, ...inside) => {
  const node = Object.assign(document.createElement(tag), given);
  node.append(...inside.filter(each => each !== null && each !== undefined));
  return node;
};

function record(family) {
  if (!records.has(family)) {
    const answer = fetch(new URL(`${place.dataset.api}${family}.json`, location)).then(each => {
      if (!each.ok) throw new Error(`${each.status}`);
      return each.json();
    });
    answer.catch(() => records.delete(family));
    records.set(family, answer);
  }
  return records.get(family);
}

const NONE = {key: "", lines: [["faint", "–"]]};
const said = text => ({key: String(text), lines: [["", String(text)]]});

/** What a family has of a value: where it is read, and under which conditions. */
function ofValue(family, host, name) {
  const value = family.values.find(each => each.host === host && each.name === name);
  const absent = family.absent.find(each => each.host === host && each.name === name);
  if (!value) return {key: `absent ${absent?.reason}`, lines: [["faint", `– ${absent?.reason ?? "not told"}`]]};
  const lines = [];
  for (const each of value.places) {
    if (each.where) lines.push(["where", each.where]);
    if (each.absent !== null) {
      lines.push(["faint", `– ${each.absent}`]);
      continue;
    }
    lines.push(["", each.words ?? "computed from the call"]);
    lines.push(["code", each.address ?? `reader ${each.reader}`]);
    if (each.native) lines.push(["code", each.native]);
    lines.push(["faint", `${each.layout} [${each.axes.join(" ")}]`]);
  }
  if (value.condition) lines.push(["warn", value.condition]);
  for (const each of value.some_blocks) lines.push(["", `on ${each.blocks} of ${each.checkpoints}`]);
  return {key: JSON.stringify(lines), lines, href: value.page};
}

/** A law on a family: its formula, and the largest error that its runs measured. */
function ofLaw(family, host, name) {
  const law = family.laws.find(each => each.host === host && each.name === name);
  if (!law) return {key: "", lines: [["faint", "– does not apply"]]};
  const lines = [];
  const key = [];
  for (const each of law.readings) {
    if (each.where) lines.push(["where", each.where]);
    lines.push(["code", each.formula]);
    if (each.exception) lines.push(["warn", `does not hold: ${each.exception}`]);
    const errors = each.measured.map(one => one.error).filter(error => error !== null);
    const worst = Math.max(...errors);
    if (errors.length) lines.push([each.exception ? "faint" : "ok", worst ? `${Number(worst.toPrecision(2))} ε` : "exact"]);
    key.push([each.where, each.formula, each.exception]);
  }
  return {key: JSON.stringify(key), lines, href: law.page};
}

const union = (families, list) => {
  const found = new Map();
  for (const family of families)
    for (const each of list(family)) found.set(`${each.host}.${each.name}`, each);
  return [...found.values()];
};

const counted = number => {
  for (const [unit, size] of [["B", 1e9], ["M", 1e6], ["k", 1e3]]) if (number >= size) return `${Number((number / size).toPrecision(3))} ${unit}`;
  return String(number);
};

function rows(families) {
  const plain = (label, get) => ({label, cells: families.map(each => (get(each) ? said(get(each)) : NONE))});
  const sizes = [...new Set(families.flatMap(each => Object.keys(each.checkpoints[0]?.sizes ?? {})))];
  const badges = [...new Set(families.flatMap(each => each.badges))];
  const HOSTS = ["model", "layers", "self_attn", "linear_attn", "mlp"];
  const order = (one, other) => HOSTS.indexOf(one.host) - HOSTS.indexOf(other.host);
  return [
    ["Family", [
      plain("class", each => each.architecture),
      plain("extends", each => each.extends),
      plain("kinds of block", each => each.kinds.map(kind => kind.hosts.map(host => host.native_class).join(", ")).join("; ")),
      plain("reference checkpoint", each => each.checkpoints[0]?.name),
      plain("parameters", each => each.checkpoints[0] && counted(each.checkpoints[0].parameters)),
      plain("trained weights that ran", each =>
        each.checkpoints.filter(one => one.kind === "run" && one.source !== "forge").map(one => one.name).join(", ")),
    ]],
    ["Sizes of the reference checkpoints", sizes.map(name => plain(name, each => each.checkpoints[0]?.sizes[name]))],
    ["Badges", badges.map(name => ({
      badge: name,
      cells: families.map(each => (each.badges.includes(name) ? {key: "1", lines: [["ok", "✓"]]} : NONE)),
    }))],
    ["Values", union(families, each => [...each.values, ...each.absent]).sort(order).map(({host, name}) => ({
      label: name, host, href: `values/${host}.${name}/`, cells: families.map(each => ofValue(each, host, name)),
    }))],
    ["Laws", union(families, each => each.laws).sort(order).map(({host, name}) => ({
      label: name, host, href: `laws/${host}.${name}/`, cells: families.map(each => ofLaw(each, host, name)),
    }))],
  ];
}

const differs = row => new Set(row.cells.map(cell => cell.key)).size > 1;

function cell(content, family) {
  const lines = content.lines.map(([kind, text]) =>
    make(kind === "code" ? "code" : "span", {className: kind === "code" ? "" : `nn-cmp-${kind || "plain"}`}, text)
  );
  const node = make("td", {}, ...lines);
  if (family) node.dataset.family = family.title;
  return node;
}

function head(row) {
  if (row.badge) return document.querySelector(`[data-badge="${row.badge}"]`).cloneNode(true);
  if (!row.href) return row.label;
  return make("a", {href: new URL(`../${row.href}`, location).href}, row.label);
}

function table(sections, families, alike) {
  const names = families.map(each => make("th", {scope: "col"}, make("a", {href: new URL(`../families/${each.family}/`, location).href}, each.title)));
  const heads = alike ? [make("th", {scope: "col"}, "all of them")] : names;
  const body = sections.filter(([, list]) => list.length).map(([title, list]) => {
    const lines = [make("tr", {className: "nn-cmp-section"}, make("th", {scope: "rowgroup", colSpan: heads.length + 1}, title))];
    let host = null;
    for (const row of list) {
      if (row.host && row.host !== host) {
        host = row.host;
        lines.push(make("tr", {className: "nn-cmp-host"}, make("th", {scope: "rowgroup", colSpan: heads.length + 1}, host)));
      }
      const cells = alike ? [cell(row.cells[0])] : row.cells.map((each, index) => cell(each, families[index]));
      lines.push(make("tr", {}, make("th", {scope: "row"}, head(row)), ...cells));
    }
    return make("tbody", {}, ...lines);
  });
  const top = make("thead", {}, make("tr", {}, make("td"), ...heads));
  return make("table", {className: `nn-cmp nn-cmp-${heads.length}`}, top, ...body);
}

function show(families) {
  const all = rows(families);
  const apart = all.map(([title, list]) => [title, list.filter(differs)]);
  const alike = all.map(([title, list]) => [title, list.filter(row => !differs(row))]);
  const count = list => list.reduce((sum, [, each]) => sum + each.length, 0);
  const title = (id, text) => make("h2", {id}, text);
  const scroll = (label, inner) => {
    const box = make("div", {className: "nn-scroll", tabIndex: 0}, inner);
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", label);
    return box;
  };
  place.replaceChildren(
    title("apart", "What sets them apart"), scroll("What sets them apart", table(apart, families, false)),
    make("details", {className: "nn-details nn-alike", id: "alike"}, make("summary", {}, `What is alike (${count(alike)})`), scroll("What is alike", table(alike, families, true))),
  );
  form.querySelector("output").textContent = `${count(apart)} differences, ${count(alike)} things alike`;
}

const plainTitle = document.title;
const chosen = () => [...new Set(selects.map(select => select.value).filter(Boolean))];

async function compare() {
  const names = chosen();
  const out = form.querySelector("output");
  document.title = names.length > 1 ? `${names.join(", ")} - compare - nnpedia` : plainTitle;
  if (names.length < 2) {
    place.replaceChildren();
    const twice = selects.filter(select => select.value).length > names.length;
    out.textContent = twice ? "That is one family twice: choose another." : names.length ? "Choose one more family." : "Choose two families.";
    return;
  }
  place.setAttribute("aria-busy", "true");
  try {
    const families = await Promise.all(names.map(record));
    if (names.join() === chosen().join()) show(families);
  } catch {
    place.replaceChildren();
    out.textContent = "The records of these families could not be fetched.";
  }
  place.removeAttribute("aria-busy");
}

function read() {
  const asked = (new URLSearchParams(location.search).get("families") ?? "").split(",");
  const known = asked.filter((name, index) => selects[0].querySelector(`option[value="${CSS.escape(name)}"]`) && name && asked.indexOf(name) === index);
  selects.forEach((select, index) => (select.value = known[index] ?? ""));
  compare();
}

if (form) {
  form.hidden = false;
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("change", () => {
    const url = new URL(location);
    const names = chosen();
    if (names.length) url.searchParams.set("families", names.join(","));
    else url.searchParams.delete("families");
    history.replaceState(null, "", url.href.replaceAll("%2C", ","));
    compare();
  });
  addEventListener("popstate", read);
  read();
}
