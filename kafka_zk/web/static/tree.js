// All znodes at one moment.

import { colour, html } from "./dom.js";

export function treeView(tree, changed, open) {
  const rows = tree.znodes.map(({ path, znode, actor }) => {
    const depth = path.split("/").length - 2;
    const name = html("span", {}, path.slice(path.lastIndexOf("/") + 1));
    name.style.paddingLeft = `${depth * 1.2}em`;
    const owner = html("span", {}, actor);
    if (znode[5]) owner.style.borderBottom = `3px solid ${colour(actor)}`;
    return html("tr", { class: path === changed ? "chosen" : "", title: path, "data-path": path,
      onclick: tree.whole ? null : () => open(path) },
    html("td", { class: "mono" }, name), html("td", { class: "mono" }, znode[0] ?? ""),
    html("td", { class: "soft" }, `v${znode[1]}`), html("td", {}, znode[5] ? owner : ""));
  });
  return html("div", {},
    html("p", { class: "soft" }, tree.whole ? `${tree.count} znodes` : `${tree.count} znodes; choose one to see below it`,
      tree.whole ? null : html("button", { onclick: () => open("") }, "to the root")),
    html("table", { class: "tree" }, html("tr", {}, ["znode", "data", "version", "ephemeral, of"].map((name) =>
      html("th", {}, name))), rows));
}
