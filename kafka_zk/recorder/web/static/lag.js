// How far groups are behind at one moment, with the age of each number (kafka_zk/recorder/web/lag_table.py).

import { clock, counted, duration, html, middle } from "./dom.js";

const MOST_NAME = 40;
const BEYOND_MS = 30_000;

// `told`: the answer of api-lag. `reset(group, topics)`: begins a reset of offsets; falsy if the page only reads, or shows the past.
export function lagView(told, moment, filter, reset) {
  const groups = new Map();
  for (const row of told.rows) groups.set(row.group, [...(groups.get(row.group) ?? []), row]);
  return html("div", { class: "lag" }, asked(told, moment),
    groups.size ? [...groups].map(([group, rows]) => groupTable(group, rows, reset))
      : html("p", { class: "soft" }, filter ? "No group or partition has this in its name, or none has committed." : "No group has committed an offset yet."),
    told.is_whole ? "" : html("p", { class: "bad" }, "There are too many partitions to compare all of them; partitions with larger lags may be missing. Use the filter."),
    told.count > told.rows.length ? html("p", { class: "soft" }, `${told.count - told.rows.length} more partitions, with smaller lags: use the filter`) : "");
}

function asked({ sampled_ms: sampled, age_ms: age, turns }, moment) {
  if (sampled === null) return html("p", { class: "soft" }, "Brokers had not been asked by then.");
  const ago = duration(Math.max(0, moment - sampled));
  if (age === null) return html("p", { class: "bad" }, `Brokers were not asked at this moment: the numbers are those of ${clock(sampled)}, ${ago} earlier.`);
  return html("p", { class: "soft" }, `Brokers were last asked ${ago} before this moment.`,
    turns > 1 ? ` They are asked about partitions in ${turns} turns: a log end is up to ${duration(age)} old.` : "");
}

function groupTable(group, rows, reset) {
  const known = rows.filter((row) => row.lag !== null), lag = known.reduce((sum, row) => sum + row.lag, 0);
  const unknown = rows.length - known.length, topics = [...new Set(rows.map((row) => row.partition.replace(/-\d+$/, "")))];
  return html("section", { "data-lag": group, "aria-label": `Group ${group}` },
    html("h2", {}, html("span", { title: group }, `Group ${middle(group, MOST_NAME)} `),
      html("small", { class: "soft" }, `${number(lag)} ${lag === 1 ? "record" : "records"} behind`),
      unknown ? html("small", { class: "bad" }, ` ${counted(unknown, "partition unknown", "partitions unknown")}`) : "",
      reset ? html("button", { "data-key": `reset ${group}`, onclick: () => reset(group, topics) }, "reset offsets…") : ""),
    html("div", { class: "scroll", tabindex: 0, role: "group", "data-key": `lag ${group}`, "aria-label": `Lag of group ${group}` }, html("table", {},
      html("tr", {}, html("th", {}, "partition"), html("th", { class: "number" }, "committed"), html("th", { title: "how long the group has not committed another offset" }, "unchanged for"),
        html("th", { class: "number", title: "high watermark" }, "end"), html("th", { class: "number" }, "lag"),
        html("th", { title: "age of the first record that the group has not committed: when the end passed the committed offset" }, "oldest unread record")),
      rows.map(partitionRow))));
}

function partitionRow(row) {
  const unknown = row.unknown_ms === null ? "unknown" : `unknown for ${duration(row.unknown_ms)}`;
  const end = row.committed === null ? "" : row.end === null ? html("span", { class: "bad" }, unknown) : number(row.end);
  return html("tr", { "data-partition": row.partition }, html("td", { title: row.partition }, middle(row.partition, MOST_NAME)),
    html("td", { class: "number" }, row.committed === null ? html("span", { class: "bad" }, unknown) : number(row.committed)),
    html("td", {}, age(row.unchanged_ms, row.unchanged_is_exact)),
    html("td", { class: "number" }, end), html("td", { class: "number" }, row.lag === null ? "" : number(row.lag)),
    html("td", {}, isBeyond(row) ? html("span", { class: "bad" }, `the offset is beyond the end by ${number(row.committed - row.end)}`) : row.lag === 0 ? "none" : age(row.behind_ms, row.behind_is_exact)));
}

// Offsets are asked of brokers shortly after ends, so only one that stays beyond the end is: the topic was recreated, or records were lost.
const isBeyond = ({ committed, end, unchanged_ms: unchanged }) => committed !== null && end !== null && committed > end && unchanged > BEYOND_MS;

const number = (value) => value.toLocaleString("en");

function age(ms, isExact) {
  if (ms === null) return "";
  return isExact ? duration(ms) : html("span", { title: "the recording does not go back further" }, `at least ${duration(ms)}`);
}
