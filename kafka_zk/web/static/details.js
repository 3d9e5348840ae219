// One event: why it came, what came of it, what it changed, and where the code is.

import { clock, html } from "./dom.js";

export function detailsView(entry, choose) {
  const document = entry.document;
  return html("div", {},
    html("h2", {}, entry.line),
    html("p", { class: "soft" }, `${clock(entry.time_ms)} · ${entry.actor}${entry.zxid ? ` · zxid ${hex(entry.zxid)}` : ""} · entry ${entry.seq}`),
    entry.explanation ? html("p", {}, entry.explanation.meaning) : null,
    document.before !== undefined ? difference(document) : html("pre", {}, JSON.stringify(plain(document), null, 1)),
    html("h2", {}, "Why?"),
    entry.why.length ? chain([entry, ...entry.why], entry.why, choose)
      : html("p", { class: "soft" }, entry.cause ? "" : "Nothing recorded comes before it: somebody outside did it, or time did."),
    html("h2", {}, "What came of it?"),
    entry.effects.length ? chain(entry.effects, entry.effects, choose)
      : html("p", { class: "soft" }, "Nothing that was recorded."),
    entry.explanation ? html("div", {}, html("h2", {}, "The code"),
      html("table", {}, html("tr", {}, html("th", {}, "here"), html("td", { class: "mono" }, entry.explanation.ours)),
        html("tr", {}, html("th", {}, "Apache's"), html("td", { class: "mono" }, entry.explanation.kafkas)))) : null);
}

// A solid line: ZooKeeper or the process says so. A dotted one is likely.
function chain(effects, shown, choose) {
  return html("ol", { class: "chain" }, shown.map((entry, index) => {
    const certain = effects[index].certain;
    return html("li", { class: certain ? "" : "perhaps", tabindex: 0, "data-seq": entry.seq,
      title: certain ? "certain" : "likely, but nobody said so",
      onclick: () => choose(entry.seq), onkeydown: (event) => { if (event.key === "Enter") choose(entry.seq); } },
    html("span", { class: "soft" }, `${clock(entry.time_ms)} ${entry.actor} `), entry.line);
  }));
}

function difference(document) {
  const side = (title, znode) => html("tr", {}, html("th", {}, title),
    html("td", {}, znode ? html("pre", {}, znode[0] ?? "null") : html("span", { class: "soft" }, "not there"),
      znode ? html("span", { class: "soft" }, `version ${znode[1]}${znode[5] ? ", ephemeral" : ""}`) : null));
  return html("div", {}, html("p", { class: "mono" }, document.path),
    html("table", {}, side("before", document.before), side("after", document.after)));
}

function plain(document) {
  const { time_ms, actor, zxid, ...rest } = document;
  return rest;
}

const hex = (zxid) => `0x${zxid.toString(16)}`;
