// A layout in numbers and bytes, for a call of so many prompts of so many tokens.
const CALL = { batch: "batch", seq: "seq", query: "seq", key: "seq" };
const BYTES = { float64: 8, int64: 8, float32: 4, int32: 4, bfloat16: 2, float16: 2, int16: 2, int8: 1, uint8: 1, bool: 1 };

// Shape, count and bytes; null for a value without axes. What the model keeps in another dtype than its own stays in it.
export function numbersOf(fact, sizes, call, own) {
  if (!fact?.axes.length || fact.absent !== null) return null;
  const shape = fact.axes.map((axis) => (axis in CALL ? call[CALL[axis]] : sizes[axis]));
  if (shape.some((size) => !Number.isFinite(size))) return null;
  const dtype = call.dtype && fact.dtype === own ? call.dtype : fact.dtype;
  const count = shape.reduce((product, size) => product * size, 1);
  return { shape: `[${shape.join(" ")}]`, count, dtype, bytes: dtype in BYTES ? count * BYTES[dtype] : null };
}

export function inBytes(bytes) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) {
    bytes /= 1024;
    at += 1;
  }
  return `${at ? Number(bytes.toPrecision(3)) : bytes} ${units[at]}`;
}

// 41900000000 as 41.9 B.
export function counted(number) {
  for (const [unit, size] of [["B", 1e9], ["M", 1e6], ["k", 1e3]])
    if (number >= size) return `${Number((number / size).toPrecision(3))} ${unit}`;
  return String(number);
}
