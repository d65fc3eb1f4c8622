// Line breaks: a text in pieces, between which a narrow column may break it.
export const broken = (text, between) =>
  text.split(between).flatMap((piece) => [document.createElement("wbr"), piece]).slice(1);
