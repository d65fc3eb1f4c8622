// The colours the reader chose last, put on the page before it is painted.
{
  const chosen = window.__md_get("__palette")?.color;
  for (const [name, value] of Object.entries(chosen ?? {})) document.body.setAttribute(`data-md-color-${name}`, value);
}
