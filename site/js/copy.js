// Copy buttons: on each block of code what it shows, and on one that ran also with what has to run before it; on each
// name of a value the expression that reads it.
const said = document.createElement("div");
said.className = "nn-hidden";
said.setAttribute("role", "status");
document.body.append(said);

const write = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // without the permission, or where the page is no secure context
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "nn-hidden";
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
};

const button = (label, name, text) => {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "nn-copy";
  made.textContent = label;
  made.setAttribute("aria-label", name);
  made.addEventListener("click", async () => {
    await write(text());
    made.textContent = "copied";
    said.textContent = "";
    said.textContent = "copied";
    made.focus();
    setTimeout(() => (made.textContent = label), 1600);
  });
  return made;
};

for (const pre of document.querySelectorAll(".highlight > pre, .highlight > table pre")) {
  const code = () => pre.querySelector("code").textContent.replace(/\n+$/, "\n");
  const block = pre.closest(".highlight");
  const bar = document.createElement("div");
  bar.className = "nn-copybar";
  bar.append(button("copy", "Copy this code", code));
  const before = block.nextElementSibling?.dataset?.before;
  if (before) bar.append(button("with imports", "Copy this code with imports and load", () => `${before}\n${code()}`));
  block.prepend(bar);
}

for (const name of document.querySelectorAll(".nn-values th .nn-name[title]")) {
  (name.parentElement.querySelector(".nn-access") ?? name.parentElement).append(button("copy", `Copy ${name.title}`, () => name.title));
}
