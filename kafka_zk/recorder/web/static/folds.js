// The items that the reader folded or unfolded, by name of a lane ("leader flights-"), topic ("topic flights") or znode.

const opened = new Set(), closed = new Set();

export const isOpen = (name, byItself) => (byItself ? !closed.has(name) : opened.has(name));

export function toggle(name, wasOpen) {
  (wasOpen ? opened : closed).delete(name);
  (wasOpen ? closed : opened).add(name);
}

// What is folded, for viewers who follow the presenter.
export const folds = () => ({ opened: [...opened], closed: [...closed] });

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
