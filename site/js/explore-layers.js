// The bar of blocks: a range input over ticks in the colours of their kinds, and the kinds as buttons.
import { layerSet } from "./explore-record.js";

const SVG = "http://www.w3.org/2000/svg";

export function layerBar(root, move) {
  const box = root.querySelector(".nn-layers");
  const input = box.querySelector("input");
  const ticks = box.querySelector("svg");
  const list = box.querySelector(".nn-kinds");
  const mark = document.createElementNS(SVG, "rect");
  mark.setAttribute("class", "nn-mark");
  let drawn = null;

  const go = (layer) => {
    input.value = layer;
    move(Number(input.value));
  };
  input.addEventListener("input", () => move(Number(input.value)));
  for (const button of box.querySelectorAll("[data-step]"))
    button.addEventListener("click", () => go(Number(input.value) + Number(button.dataset.step)));
  list.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const layers = [...layerSet(button.dataset.layers)];
    go(layers.find((layer) => layer > Number(input.value)) ?? layers[0]);
  });

  function build(choice) {
    ticks.setAttribute("viewBox", `0 0 ${choice.layers} 10`);
    ticks.setAttribute("aria-hidden", "true"); // the input says it
    ticks.replaceChildren();
    list.replaceChildren();
    for (const [label, spans, hue, , sizes] of choice.kinds) {
      for (const layer of layerSet(spans)) {
        const tick = document.createElementNS(SVG, "rect");
        for (const [name, value] of Object.entries({ class: `nn-kind-${hue}`, x: layer + 0.08, width: 0.84, height: 10 }))
          tick.setAttribute(name, value);
        ticks.append(tick);
      }
      list.append(kindItem(choice, label, spans, hue, sizes));
    }
    ticks.append(mark);
    root.querySelector(".nn-count").textContent = choice.layers;
    input.max = choice.layers - 1;
    input.style.setProperty("--nn-thumb", `${100 / choice.layers}%`); // as wide as a tick, so that a tick is where it is hit
    drawn = choice;
  }

  return {
    show({ choice, layer, kind }) {
      if (drawn !== choice) build(choice);
      input.value = layer;
      const label = kind.call({ choice, layer })[0];
      input.setAttribute("aria-valuetext", `layers[${layer}] of ${choice.layers}: ${label}`);
      mark.setAttribute("x", layer - 0.1);
      mark.setAttribute("y", -1.5);
      mark.setAttribute("width", 1.2);
      mark.setAttribute("height", 13);
      box.querySelector(".nn-layer b").textContent = layer;
      box.querySelector(".nn-layer span").textContent = label === "block" ? "" : label;
      box.querySelector('[data-step="-1"]').disabled = layer === 0;
      box.querySelector('[data-step="1"]').disabled = layer === choice.layers - 1;
      for (const button of list.querySelectorAll("button"))
        button.toggleAttribute("data-on", layerSet(button.dataset.layers).has(layer));
    },
  };
}

function kindItem(choice, label, spans, hue, sizes = {}) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  const swatch = document.createElement("i");
  const name = document.createElement("code");
  const count = document.createElement("span");
  swatch.className = `nn-kind-${hue}`;
  name.textContent = label;
  const own = Object.entries(sizes).map(([axis, length]) => `; ${axis} ${length}`).join("");
  count.textContent = `${layerSet(spans).size} of ${choice.layers} blocks: ${spans}${own}`;
  Object.assign(button, { type: "button", title: `The next block of this kind` });
  button.dataset.layers = spans;
  button.append(swatch, name);
  item.append(button, " ", count);
  return item;
}
