// Documents over time, from patches (kafka_zk/recorder/page_export/patches.py).

const BETWEEN = 64;

// `patches`: [[key, patch], …] in the order of their keys. A document is valid until the next key.
export class Replayed {
  constructor(patches) {
    this.keys = patches.map(([key]) => key);
    this.patches = patches.map(([, patch]) => patch);
    this.kept = [null]; // the document before each BETWEEN-th patch
  }

  // The document at a key; null before the first one. Callers must not change it.
  at(key) {
    const index = lastUntil(this.keys, key), from = Math.max(0, Math.floor(index / BETWEEN));
    while (this.kept.length <= from) this.kept.push(this.patches.slice((this.kept.length - 1) * BETWEEN, this.kept.length * BETWEEN).reduce(patched, this.kept.at(-1)));
    return this.patches.slice(from * BETWEEN, index + 1).reduce(patched, this.kept[from]);
  }
}

// The index of the last number up to `limit` in ascending numbers; -1 if all are larger.
export function lastUntil(numbers, limit) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const half = (low + high) >> 1;
    if (numbers[half] <= limit) low = half + 1;
    else high = half;
  }
  return low - 1;
}

function patched(document, patch) {
  if (Array.isArray(patch)) return patch.length === 1 ? patch[0] : document.toSpliced(patch[0], patch[1], ...patch[2]);
  const changed = Array.isArray(document) ? [...document] : { ...document };
  for (const name of patch.removed ?? []) delete changed[name];
  for (const [name, each] of Object.entries(patch.changed ?? {})) {
    const value = patched(document[name], each); // defined, not assigned: "__proto__" may be the name of a znode
    Object.defineProperty(changed, name, { value, writable: true, enumerable: true, configurable: true });
  }
  return changed;
}
