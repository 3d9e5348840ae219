// All znodes at one moment: recent changes, watchers, and owners of ephemeral znodes.

import { colour, foldButton, html, readable } from "./dom.js";
import { isOpen, toggle } from "./folds.js";

const MOST_BELOW = 40, MOST_ROWS = 2000, MOST_DATA = 200;

// `changed`: by path what became of a znode just now; `at`: the path of the chosen event; `open` shows a znode, `enter`
// what is below it, where there are too many to show them all.
export function treeView(tree, changed, at, filter, open, enter, again) {
  const nodes = nested(tree, changed);
  const shown = filter ? nodes.filter((node) => node.path.includes(filter)) : tree.whole ? unfolded(nodes, at) : nodes;
  const more = tree.found - tree.znodes.length + Math.max(0, shown.length - MOST_ROWS);
  return html("div", {},
    html("p", { class: "said" }, `${tree.count} znodes. `, html("span", { class: "tag changed" }, "changed"), " just now ",
      html("span", { class: "tag deleted" }, "deleted"), " just now; underlined: deleted when that session ends. Choose one to see its data and history."),
    tree.whole || filter ? null : whereabouts(tree.parent, enter),
    html("table", { class: "tree" }, html("tr", {}, ["znode", "data", "version", "session of", "watched by"].map((name) =>
      html("th", {}, name))), shown.slice(0, MOST_ROWS).map((node) => row(node, tree, at, filter, open, enter, again))),
    more ? html("p", { class: "soft" }, `and ${more} more: use the filter`) : null);
}

// Each znode with the number of znodes below it, including those that were just deleted.
function nested(tree, changed) {
  const rows = new Map(tree.znodes.map((each) => [each.path, { ...each, change: changed.get(each.path) }]));
  for (const [path, change] of changed) {
    if (!rows.has(path) && change === "deleted" && (tree.whole || parent(path) === tree.parent)) rows.set(path, { path, znode: null, actor: "", watchers: [], below: 0, change });
  }
  const parts = (path) => path.split("/");
  const nodes = [...rows.values()].sort((a, b) => compared(parts(a.path), parts(b.path)));
  if (tree.whole) for (const node of nodes) {
    for (let at = parent(node.path); at; at = parent(at)) if (rows.has(at)) rows.get(at).below += 1;
  }
  return nodes;
}

function compared(a, b) {
  for (let index = 0; index < Math.min(a.length, b.length); index += 1) {
    const order = a[index].localeCompare(b[index], undefined, { numeric: true });
    if (order) return order;
  }
  return a.length - b.length;
}

const parent = (path) => path.slice(0, path.lastIndexOf("/"));
const opensItself = (node) => node.below <= MOST_BELOW && !/^\/(brokers\/topics\/__|config$|zookeeper$)/.test(node.path);

// Leaves out znodes below a folded one, but never the znode that the chosen event changed.
function unfolded(nodes, at) {
  const folded = [];
  return nodes.filter((node) => {
    while (folded.length && !node.path.startsWith(`${folded.at(-1)}/`)) folded.pop();
    const hidden = folded.length > 0;
    if (!hidden && node.below && !at.startsWith(`${node.path}/`) && !isOpen(`znode ${node.path}`, byItself(node))) folded.push(node.path);
    return !hidden;
  });
}

const ROOTS = new Set(["/brokers", "/brokers/topics", "/consumers"]);
const byItself = (node) => ROOTS.has(node.path) || opensItself(node);

// The path to the current folder, with a button for each parent.
function whereabouts(path, enter) {
  const parts = path.split("/").filter(Boolean);
  return html("p", {}, html("button", { "data-key": "enter /", onclick: () => enter("") }, "all"), parts.flatMap((part, index) => {
    const to = `/${parts.slice(0, index + 1).join("/")}`;
    return [" / ", html("button", { "data-key": `enter ${to}`, onclick: () => enter(to) }, part)];
  }));
}

function row(node, tree, at, filter, open, enter, again) {
  const name = `znode ${node.path}`;
  const isUnfolded = isOpen(name, byItself(node)) || at.startsWith(`${node.path}/`);
  const label = filter ? node.path : node.path.slice(node.path.lastIndexOf("/") + 1);
  const owner = html("span", {}, readable(node.actor));
  if (node.znode?.[5]) owner.style.borderBottom = `3px solid ${colour(node.actor.replace(/^controller-/, "broker-"))}`;
  const cell = html("td", { class: "mono" },
    node.below && !filter && tree.whole ? foldButton(`fold ${name}`, isUnfolded, () => { toggle(name, isUnfolded); again(); }) : html("span", { class: "nofold" }),
    html("button", { class: "znode", "data-key": name, onclick: () => open(node.path) }, label),
    !node.below || (isUnfolded && tree.whole) ? null : tree.whole ? html("span", { class: "soft" }, ` ${node.below} below`)
      : html("button", { class: "below", "data-key": `enter ${node.path}`, onclick: () => enter(node.path) }, `${node.below} below`));
  if (!filter && tree.whole) cell.style.paddingLeft = `${(node.path.split("/").length - 2) * 1.2}em`;
  return html("tr", { class: `${node.path === at ? "chosen " : ""}${node.change ?? ""}`, title: node.path, "data-path": node.path },
    cell, html("td", { class: "mono data" }, (node.znode?.[0] ?? "").slice(0, MOST_DATA)),
    html("td", { class: "soft" }, node.znode ? `v${node.znode[1]}` : "gone"), html("td", {}, node.znode?.[5] ? owner : ""),
    html("td", { class: "soft" }, node.watchers.length ? watchers(node.watchers) : ""));
}

const watchers = (names) => {
  const shown = [...new Set(names.map((name) => readable(name)))];
  return shown.length > 4 ? `${shown.slice(0, 3).join(", ")} and ${shown.length - 3} more` : shown.join(", ");
};
