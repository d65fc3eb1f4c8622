// Cards: what a part has to say, on hover and focus; a click, a tap or Enter keeps it open, Escape closes it.
import { broken } from "./explore-breaks.js";
import { factsFor } from "./explore-facts.js";

const PARTS = "[data-value], [data-module], [data-operator], [data-add]";
const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

export function cards(root, state) {
  const card = document.createElement("div");
  Object.assign(card, { className: "nn-facts", id: "nn-facts", hidden: true, tabIndex: -1 });
  root.append(card);
  let part = null, pinned = false, leaving = 0, returning = false;

  for (const title of root.querySelectorAll(`a title`)) title.remove(); // the card says it
  for (const each of root.querySelectorAll(`svg :is(${PARTS})`)) {
    each.setAttribute("role", "button");
    each.setAttribute("aria-haspopup", "dialog");
    each.setAttribute("aria-expanded", "false");
    if (each.dataset.add) each.setAttribute("aria-label", `${each.dataset.add} is added to the residual stream`);
    if (each.dataset.operator) each.setAttribute("aria-label", `${each.dataset.operator}, on the way to ${each.dataset.target}`);
  }

  const partOf = (target) => {
    const found = target.closest?.(PARTS);
    return found && root.contains(found) && !card.contains(found) ? found : null;
  };

  function open(next, pin = false) {
    clearTimeout(leaving);
    if (part && part !== next) mark(false);
    part = next;
    pinned = pin;
    fill(card, factsFor(part, state), pinned);
    card.hidden = false;
    mark(true);
    place();
  }

  function close(back = false) {
    if (!part) return;
    const left = part;
    mark(false);
    card.hidden = true;
    part = null;
    pinned = false;
    returning = true; // to a part whose card was just closed
    if (back) left.focus();
    returning = false;
  }

  function mark(on) {
    part.classList.toggle("nn-on", on);
    if (part.hasAttribute("aria-expanded")) part.setAttribute("aria-expanded", String(on && pinned));
    on ? part.setAttribute("aria-describedby", "nn-facts") : part.removeAttribute("aria-describedby");
    if (pinned && on) {
      card.setAttribute("role", "dialog");
      card.setAttribute("aria-labelledby", "nn-facts-name");
    } else {
      card.setAttribute("role", "tooltip");
      card.removeAttribute("aria-labelledby");
    }
  }

  // Beside the diagram where there is room, below the part where it is a line of its own; a sheet on a phone, by the styles.
  function place() {
    const box = root.getBoundingClientRect(), at = part.getBoundingClientRect();
    const figure = part.closest(".nn-diagram")?.getBoundingClientRect();
    const beside = figure && box.right - figure.right > 200;
    card.classList.toggle("nn-facts--beside", Boolean(beside));
    const width = beside ? Math.min(box.right - figure.right - 6, 400) : Math.min(box.width, 400);
    card.style.setProperty("--nn-width", `${width}px`);
    const height = card.offsetHeight;
    const left = beside ? figure.right - box.left + 6 : Math.min(Math.max(at.left - box.left, 0), box.width - width);
    const middle = at.top + at.height / 2 - box.top;
    // wholly in view where that is possible
    const lowest = innerHeight - box.top - height - 8, highest = 60 - box.top;
    const wanted = beside ? middle - 26 : at.bottom - box.top + 8;
    const top = Math.max(Math.min(wanted, lowest), beside ? Math.min(highest, wanted) : wanted);
    card.style.setProperty("--nn-left", `${left}px`);
    card.style.setProperty("--nn-top", `${top}px`);
    card.style.setProperty("--nn-arrow", `${Math.min(Math.max(middle - top, 12), height - 12)}px`);
  }

  root.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse") return;
    const over = partOf(event.target);
    if (over && !pinned && over !== part) open(over);
    else if (over || card.contains(event.target)) clearTimeout(leaving);
  });
  root.addEventListener("pointerout", (event) => {
    if (pinned || !part || event.pointerType !== "mouse") return;
    clearTimeout(leaving);
    leaving = setTimeout(() => { if (!pinned && !part?.matches(":focus-visible")) close(); }, 220);
  });
  root.addEventListener("focusin", (event) => {
    const on = partOf(event.target);
    if (on && on !== part && !returning && on.matches(":focus-visible")) open(on);
  });
  root.addEventListener("focusout", (event) => {
    if (!pinned && part === event.target) close();
  });
  root.addEventListener("click", (event) => {
    const on = partOf(event.target);
    if (event.target.closest(".nn-facts-close")) close(true);
    else if (on && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      if (pinned && on === part) return close();
      open(on, true);
      if (event.detail === 0) card.focus(); // by keyboard
    }
  });
  card.addEventListener("click", async (event) => {
    if (event.target.closest(".nn-facts-copy")) await copy(card);
    if (event.target.closest(".nn-facts-link")) close();
  });
  document.addEventListener("pointerdown", (event) => {
    if (pinned && !card.contains(event.target) && !partOf(event.target) && !event.target.closest(".nn-layers")) close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && part) close(card.contains(document.activeElement));
    else if (event.key === "Tab" && pinned && card.contains(event.target)) leave(event);
    else if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return; // the browser's own
    else if (event.key in ARROWS && partOf(event.target)?.closest("svg")) {
      event.preventDefault();
      neighbour(partOf(event.target), ...ARROWS[event.key])?.focus();
    } else if (event.key === " " && partOf(event.target)?.getAttribute("role") === "button") {
      event.preventDefault(); // a link that is a button, which a space presses
      partOf(event.target).dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    }
  });

  // The card stands at the end of the explorer; for Tab it stands behind its part.
  function leave(event) {
    const stops = [...card.querySelectorAll("a, button")];
    const first = document.activeElement === card || document.activeElement === stops[0];
    if (event.shiftKey ? first : document.activeElement === stops.at(-1)) {
      if (event.shiftKey) event.preventDefault();
      close(true);
    }
  }

  return {
    renew() {
      if (!part) return;
      const same = [part, ...root.querySelectorAll(PARTS)].find((each) =>
        each.checkVisibility() && ["value", "module", "operator", "add", "target"].every((name) => each.dataset[name] === part.dataset[name]));
      same ? open(same, pinned) : close();
    },
  };
}

function fill(card, facts, pinned) {
  const make = (name, className, says) => Object.assign(document.createElement(name), { className, textContent: says });
  const inCode = (className, pieces) => {
    const made = make("code", className, "");
    made.append(...pieces);
    return made;
  };
  const name = make("p", "nn-facts-name", facts.name);
  name.id = "nn-facts-name";
  const list = make("dl", "", "");
  for (const [term, says, code] of facts.rows) {
    if (!says && !code) continue;
    const told = make("dd", "", says);
    if (code) told.append(inCode("", broken(code, /(?<=[\w\]])(?=[.@][A-Za-z_])/)));
    list.append(make("dt", "", term), told);
  }
  const expression = inCode("nn-facts-expression", broken(facts.expression, /(?=\.)/));
  const foot = make("p", "nn-facts-foot", "");
  if (facts.expression) foot.append(make("button", "nn-facts-copy", "copy"));
  if (facts.link) foot.append(Object.assign(make("a", "nn-facts-link", facts.link.says), { href: facts.link.href }));
  if (pinned) {
    const button = make("button", "nn-facts-close", "close");
    button.title = "Close (Esc)";
    foot.append(button);
  }
  for (const button of foot.querySelectorAll("button")) button.type = "button";
  card.replaceChildren(name, ...(facts.expression ? [expression] : []), make("p", "nn-facts-about", facts.about), list, foot);
}

async function copy(card) {
  const button = card.querySelector(".nn-facts-copy");
  const says = card.querySelector(".nn-facts-expression").textContent;
  try {
    await navigator.clipboard.writeText(says);
    button.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(card.querySelector(".nn-facts-expression")); // no clipboard without https: selected
    button.textContent = "selected";
  }
}

// The part nearest in a direction, one that lies straight ahead before one aside.
function neighbour(from, dx, dy) {
  const box = from.getBoundingClientRect();
  let best = null, least = Infinity;
  for (const each of from.closest("svg").querySelectorAll(PARTS)) {
    const at = each.getBoundingClientRect();
    const across = [at.x - box.x + (at.width - box.width) / 2, at.y - box.y + (at.height - box.height) / 2];
    const ahead = across[0] * dx + across[1] * dy;
    const apart = dx ? Math.abs(across[1]) - (at.height + box.height) / 2 : Math.abs(across[0]) - (at.width + box.width) / 2;
    const far = ahead + (apart > 0 ? 1000 + 10 * apart : 0);
    if (each !== from && ahead > 3 && far < least) {
      least = far;
      best = each;
    }
  }
  return best;
}
