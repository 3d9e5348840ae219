// What the reader folded or unfolded. Names are those of lanes ("leader flights-"), topics ("topic flights"), znodes.

const opened = new Set(), closed = new Set();

export const isOpen = (name, byItself) => (byItself ? !closed.has(name) : opened.has(name));

export function toggle(name, wasOpen) {
  (wasOpen ? opened : closed).delete(name);
  (wasOpen ? closed : opened).add(name);
}

// As the server takes them: one a line.
export const lanesQuery = () => ({ open: lines(opened, /^(leader|owner|assigned) /), close: lines(closed, /^(leader|owner|assigned) /) });
export const topicsQuery = () => ({ open: lines(opened, /^topic /).replaceAll(/^topic /gm, "") });

const lines = (names, which) => [...names].filter((name) => which.test(name)).join("\n");
