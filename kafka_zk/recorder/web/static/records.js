// Single records as squares, for each partition: what is acknowledged, what each replica has, what each group has read.
// Python computes them (records.py, record_plays.py).

import { html, middle, readable } from "./dom.js";

const MOST_VALUE = 4, MOST_NAME = 24;
let drawn = new Set(); // the squares of the last picture: new ones appear with a movement

// `plays`: two plays of a scenario side by side, or none. `batches`: of a live cluster, where the recorder knows only offsets.
export function recordsView(plays) {
  return plays.some((play) => play.partitions.length || play.said) ? section("Records", "by offset", plays, legend()) : null;
}

export function batchesView(plays, ageMs) {
  return plays.length ? section("Records", `sampled offsets, up to ${Math.ceil(ageMs / 1000)} s old: a square is what came between two samples`, plays, batchLegend()) : null;
}

function section(title, note, plays, key) {
  const before = drawn;
  drawn = new Set();
  const isNew = (key) => { drawn.add(key); return before.size > 0 && !before.has(key); };
  return html("section", { class: "records", "aria-label": "Records" },
    html("h2", {}, `${title} `, html("small", { class: "soft" }, note)), key,
    html("div", { class: "sides" }, plays.map((play) => side(play, plays.length > 1, isNew))), conclusion(plays));
}

function side(play, isOneOfTwo, isNew) {
  return html("div", { class: `side${isOneOfTwo && play.is_shown ? " shown" : ""}` },
    isOneOfTwo ? html("h3", {}, capital(play.name), play.is_shown ? "" : html("small", { class: "soft" }, " at the same step")) : null,
    isOneOfTwo ? html("p", { class: "said" }, play.rule ? `The rule: ${play.rule}` : "The same brokers and clients, with their safeguard.") : null,
    play.partitions.length ? play.partitions.map((each) => partition(each, play.name, isNew)) : html("p", { class: "soft" }, "No records yet."),
    play.said ? html("p", { class: play.is_wrong ? "verdict bad" : "verdict" }, `${play.is_wrong ? "✗ " : ""}${readable(play.said)}`,
      play.is_wrong && play.rule ? html("span", {}, ` The rule above allowed it.`) : null) : null);
}

function conclusion(plays) {
  const text = plays.find((play) => play.is_shown)?.conclusion;
  return text ? html("p", { class: "conclusion" }, html("b", {}, "Conclusion: "), text) : null;
}

function partition({ name, columns, rows }, play, isNew) {
  const older = rows.some((row) => row.older_count);
  return html("div", { class: "scroll", tabindex: 0, role: "group", "data-key": `records ${play} ${name}`, "aria-label": `Records of ${name}${play ? `, ${play}` : ""}` }, html("table", {},
    html("tr", {}, html("th", { scope: "col", title: name }, middle(name, MOST_NAME)), older ? html("th", { scope: "col" }, "older") : null,
      columns.map((each) => html("th", { scope: "col", class: "offset" }, each)), html("td", {})),
    rows.map((row) => html("tr", { class: row.kind }, html("th", { scope: "row", title: row.name }, middle(row.name, MOST_NAME)),
      older ? html("td", { class: row.older_faults ? "bad" : "soft" }, olderText(row)) : null,
      row.squares.map((each, index) => html("td", {}, each ? square(each, isNew(`${play} ${name} ${row.name} ${columns[index]} ${each.value} ${each.state}`)) : "")),
      html("td", { class: `note ${row.note.includes("no ") ? "bad" : "soft"}` }, readable(row.note))))));
}

const olderText = ({ older_count, older_faults }) => (older_count ? `${older_count}${older_faults ? `, ${older_faults} ✗` : ""}` : "");

function square({ value, state, said, fault }, isNew) {
  return html("span", { class: `square ${state}${fault ? " fault" : ""}${isNew ? " new" : ""}`, title: readable(said), "data-square": fault || state },
    html("span", { "aria-hidden": "true" }, middle(value, MOST_VALUE)), html("span", { class: "unseen" }, readable(said)));
}

function legend() {
  return html("p", { class: "legend" }, key("acknowledged", "acknowledged"), key("appended", "written"), key("passed", "below the high watermark"),
    key("read", "read"), key("committed", "read and committed"), key("passed fault", "lost, doubled or unread"));
}

const key = (state, text) => html("span", {}, html("span", { class: `square ${state}`, "aria-hidden": "true" }), ` ${text}`);
const batchLegend = () => html("p", { class: "legend" }, key("passed", "below the high watermark"), key("read", "partly committed"),
  key("committed", "committed"), key("passed fault", "went back"));

const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
