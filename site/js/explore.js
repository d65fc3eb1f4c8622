// The explorer of a family page: the checkpoint, the block and the call that its numbers are for.
import { cards } from "./explore-card.js";
import { layerBar } from "./explore-layers.js";
import { numbersOf } from "./explore-numbers.js";
import { factsInPage, factsOf, fetchRecord, layerSet, sizesInPage } from "./explore-record.js";
import { showCheckpoint, showRows } from "./explore-swap.js";

const root = document.querySelector(".nn-explore");
if (root) start(root);

function start(root) {
  const choices = JSON.parse(root.dataset.choices);
  const form = root.querySelector(".nn-tools");
  const said = root.querySelector(".nn-said");
  const warned = root.querySelector(".nn-warned");
  const stage = root.querySelector(".nn-stage");
  stage.append(...root.querySelectorAll(".nn-others .nn-block"));
  root.querySelector(".nn-others")?.remove();
  root.classList.add("nn-explore--live");

  const state = {
    choice: choices[0], record: null, layer: 0, asked: 0,
    facts: factsInPage(), sizes: sizesInPage(root), call: { batch: 1, seq: 1024, dtype: "" },
    kind() {
      return this.choice.kinds.find((kind) => layerSet(kind[1]).has(this.layer)) ?? this.choice.kinds[0];
    },
    numbers(fact) {
      return numbersOf(fact, { ...this.sizes, ...this.kind()[4] }, this.call, this.choice.dtype);
    },
  };
  const bar = layerBar(root, (layer) => { state.layer = layer; draw(); note(history.replaceState); });
  const card = cards(root, state);

  function draw() {
    const look = String(state.kind()[3]);
    for (const section of stage.children) section.hidden = section.dataset.look !== look;
    bar.show(state);
    const shown = stage.querySelector(".nn-block:not([hidden])");
    shown.querySelector(".nn-such")?.replaceChildren(`layers[${state.layer}]`);
    for (const link of shown.querySelectorAll(".nn-identity .nn-formula a")) {
      link.dataset.plain ??= link.textContent;
      const steps = `layers[${state.layer}].${link.dataset.plain}`.split(".");
      link.replaceChildren(...steps.flatMap((step, at) => (at ? [".", document.createElement("wbr"), step] : [step])));
    }
    showRows(state);
    card.renew();
  }

  // What a reader chose, in the address: what stands at its first value is left out.
  function note(write) {
    const query = new URLSearchParams(location.search);
    const { batch, seq, dtype } = state.call;
    const chosen = {
      checkpoint: state.choice === choices[0] ? "" : state.choice.slug, layer: state.layer || "",
      batch: batch === 1 ? "" : batch, seq: seq === 1024 ? "" : seq, dtype,
    };
    for (const [name, value] of Object.entries(chosen)) value === "" ? query.delete(name) : query.set(name, value);
    const search = query.size ? `?${query}` : location.pathname;
    if (search !== (location.search || location.pathname)) write.call(history, null, "", search + location.hash);
  }

  async function choose(choice, layer = 0) {
    const ticket = ++state.asked;
    form.elements.checkpoint.value = choice.slug;
    if (choice !== state.choice) {
      said.textContent = `${choice.name} is being read…`;
      try {
        const record = await fetchRecord(`${root.dataset.api}${choice.slug}.json`);
        if (ticket !== state.asked) return false;
        Object.assign(state, { choice, record, sizes: record.sizes, facts: factsOf(record) });
      } catch {
        if (ticket !== state.asked) return false;
        form.elements.checkpoint.value = state.choice.slug;
        said.textContent = `${choice.name} could not be read; ${state.choice.name} is still shown.`;
        return false;
      }
      showCheckpoint(root, state);
    }
    if (said.textContent || choice !== choices[0]) said.textContent = `${choice.name} is shown.`;
    state.layer = Math.min(Math.max(layer, 0), choice.layers - 1);
    draw();
    return true;
  }

  function readCall(values) {
    for (const name of ["batch", "seq"]) {
      const field = form.elements[name];
      if (name in values) field.value = Number.isFinite(Number(values[name])) ? values[name] : "";
      const valid = field.checkValidity();
      if (valid) state.call[name] = Number(field.value);
      valid ? field.removeAttribute("aria-invalid") : field.setAttribute("aria-invalid", "true");
    }
    const { batch, seq } = state.call;
    const wrong = ["batch", "seq"].filter((name) => !form.elements[name].checkValidity());
    const what = wrong.map((name) => `${name === "seq" ? "sequence" : name} is a whole number from 1 to ${form.elements[name].max}`);
    warned.textContent = wrong.length ? `${what.join("; ")}: shown are the numbers for ${batch} × ${seq}.` : "";
    state.call.dtype = values.dtype ?? form.elements.dtype.value;
    form.elements.dtype.value = state.call.dtype;
    if (form.elements.dtype.selectedIndex < 0) form.elements.dtype.value = state.call.dtype = "";
  }

  function fromAddress() {
    const query = new URLSearchParams(location.search);
    readCall({ batch: query.get("batch") ?? 1, seq: query.get("seq") ?? 1024, dtype: query.get("dtype") ?? "" });
    const choice = choices.find((each) => each.slug === query.get("checkpoint")) ?? choices[0];
    return choose(choice, Number.parseInt(query.get("layer") ?? "0", 10) || 0);
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    if (event.target.name === "checkpoint") return;
    readCall({});
    draw();
    note(history.replaceState);
  });
  form.elements.checkpoint.addEventListener("change", async (event) => {
    const choice = choices.find((each) => each.slug === event.target.value);
    if (await choose(choice, state.layer)) note(history.pushState);
  });
  addEventListener("popstate", fromAddress);
  fromAddress().then((shown) => shown && note(history.replaceState)); // what the address asked for and there is not
}
