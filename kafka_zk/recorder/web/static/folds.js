// The items that the reader folded or unfolded, by name of a lane ("leader flights-"), topic ("topic flights") or znode.

const opened = new Set(), closed = new Set();

export const isOpen = (name, byItself) => (byItself ? !closed.has(name) : opened.has(name));

export function toggle(name, wasOpen) {
  (wasOpen ? opened : closed).delete(name);
  (wasOpen ? closed : opened).add(name);
}

const MOST_FOLDS = 100, MOST_BYTES = 20_000; // the server accepts no more folds, and no state above 100 kB

// What is folded, for viewers who follow the presenter: the last names, if they are many. A cut list is not followed in full.
export const folds = () => ({ opened: lastOf(opened), closed: lastOf(closed) });

export const isCut = () => [opened, closed].some((names) => lastOf(names).length < names.size);

function lastOf(names) {
  const found = [...names].slice(-MOST_FOLDS), sizes = found.map((name) => new TextEncoder().encode(JSON.stringify(name)).length);
  let left = sizes.reduce((sum, each) => sum + each, 0), from = 0;
  while (left > MOST_BYTES) left -= sizes[from++];
  return found.slice(from);
}

export function takeFolds(told) {
  for (const [names, now] of [[opened, told.opened], [closed, told.closed]]) {
    names.clear();
    for (const name of now) names.add(name);
  }
}

// The names for the server, one on each line.
export const lanesQuery = () => ({ open: lines(opened, /^(leader|owner|assigned) /), close: lines(closed, /^(leader|owner|assigned) /) });
export const topicsQuery = () => ({ open: lines(opened, /^topic /).replaceAll(/^topic /gm, "") });

const lines = (names, which) => [...names].filter((name) => which.test(name)).join("\n");
