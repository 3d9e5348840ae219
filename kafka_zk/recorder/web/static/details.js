// One event or one znode: its meaning, causes, effects, changes, and the code behind it.

import { clock, dated, html, readable } from "./dom.js";
import { differingLines, pretty } from "./difference.js";

const MOST_MEANWHILE = 200;

// `episode`: the episode that this event began, with all events recorded `meanwhile`; null if an event was chosen directly.
// `playSlowly` shows its steps.
// `codeAddress(file)`: the address of one of our modules; null if it has none.
export function detailsView(entry, episode, choose, codeAddress, playSlowly) {
  const document = entry.document;
  const isChange = document.before !== undefined;
  return html("div", {},
    episode ? html("p", { class: "episode" }, episode.said, html("span", { class: "soft" }, " Its first event:")) : null,
    episode && episode.subject !== "you" ? html("p", {}, html("button", { "data-key": "slowly", onclick: playSlowly }, "▶ play slowly")) : null,
    episode?.meanwhile.length > 1 ? meanwhileView(episode.meanwhile, choose) : null,
    html("h2", {}, capital(readable(entry.title))),
    html("p", { class: "soft" }, `${dated(entry.time_ms, entry.microsecond)} · ${readable(entry.actor)}${entry.number ? ` (its event ${entry.number})` : ""}${entry.zxid ? ` · zxid ${hex(entry.zxid)}` : ""} · entry ${entry.seq}`),
    isChange ? difference(document) : null,
    html("h2", {}, "Why?"),
    entry.why.length ? chain([entry, ...entry.why], entry.why, choose)
      : html("p", { class: "soft" }, entry.cause ? "Its cause is no longer recorded." : entry.reason),
    html("h2", {}, "Effects"),
    entry.effects.length ? chain(entry.effects, entry.effects, choose)
      : html("p", { class: "soft" }, "None was recorded."),
    entry.explanation ? [html("h2", {}, "What it means"), html("p", {}, entry.explanation.meaning)] : null,
    entry.explanation ? code(entry.explanation, codeAddress) : null,
    html("details", {}, html("summary", {}, "raw record"), html("pre", {}, JSON.stringify(plain(document), null, 1))));
}

// A server shows our module; Kafka's is only named.
function code({ ours, kafkas }, codeAddress) {
  const address = codeAddress(ours);
  const link = address === null ? ours : html("a", { href: address, target: "_blank", title: "Read this module" }, ours);
  return html("div", {}, html("h2", {}, "The code"),
    html("table", {}, html("tr", {}, html("th", {}, "here"), html("td", { class: "mono" }, link)),
      kafkas ? html("tr", {}, html("th", {}, "Apache's"), html("td", { class: "mono" }, kafkas)) : null));
}

// `told`: a znode at the shown moment.
export function znodeView(told, choose) {
  const znode = told.znode;
  return html("div", {},
    html("h2", { class: "mono" }, told.path),
    html("p", { class: "soft" }, !znode ? "does not exist at this moment"
      : `version ${znode[1]} · created by zxid ${hex(znode[2])}, written by zxid ${hex(znode[3])} at ${dated(znode[4])}`
        + `${znode[5] ? ` · ephemeral: deleted when the session of ${readable(told.actor)} ends` : ""}`),
    html("p", {}, told.watchers.length ? `Watched by ${told.watchers.map((name) => readable(name)).join(", ")}` : "No process reports a watch on it."),
    told.last ? difference(told.last) : znode ? html("pre", {}, pretty(znode[0])) : null,
    html("h2", {}, "Its history until this moment"),
    told.changes.length ? chain(told.changes.map(() => ({ certain: true })), told.changes, choose)
      : html("p", { class: "soft" }, "It existed before the recording began."));
}

function meanwhileView(entries, choose) {
  const cut = entries.length > MOST_MEANWHILE ? ` (the first ${MOST_MEANWHILE})` : "";
  return html("details", { class: "steps" }, html("summary", {}, `${entries.length} events in that time${cut}`),
    html("ol", { class: "chain unmarked" }, entries.slice(0, MOST_MEANWHILE).map((entry) => html("li", {}, entryButton(entry, null, choose)))));
}

// A solid line: reported by ZooKeeper or the process. A dotted line: likely.
function chain(effects, shown, choose) {
  return html("ol", { class: "chain" }, shown.map((entry, index) => {
    const certain = effects[index].certain;
    return html("li", { class: certain ? "" : "perhaps" }, entryButton(entry, certain ? "certain" : "likely, but not reported", choose, !certain));
  }));
}

const entryButton = (entry, title, choose, likely = false) => html("button", { "data-seq": entry.seq, "data-key": `entry ${entry.seq}`, title, onclick: () => choose(entry.seq) },
  html("span", { class: "soft" }, `${clock(entry.time_ms)} ${readable(entry.actor)} `), likely ? html("small", { class: "soft" }, "likely: ") : null, readable(entry.line));

function difference(document) {
  const { before, after } = document;
  const versions = before && after ? `version ${before[1]} → ${after[1]}` : after ? "created" : "deleted";
  return html("div", {}, html("p", { class: "soft" }, `${document.path} · ${versions}`),
    html("pre", { class: "difference" }, differingLines(before ? pretty(before[0]) : "", after ? pretty(after[0]) : "")
      .map(([sign, text]) => html("span", { class: { "+": "added", "-": "removed", " ": "" }[sign] }, `${sign} ${text}\n`))));
}

function plain(document) {
  const { time_ms, actor, zxid, ...rest } = document;
  return rest;
}

const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
const hex = (zxid) => `0x${zxid.toString(16)}`;
