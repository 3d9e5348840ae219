// Reset a group's offsets, as kafka-zk groups reset-offsets does.

import { ActDialog } from "./act_dialog.js";
import { counted, html } from "./dom.js";

const TO = { earliest: "the first record", latest: "the end", time: "the first record since (by this browser's clock)", shift: "forward by (negative: back)", offset: "the offset" };
const KINDS = { "": "the only group of this name", broker: "at the brokers", zookeeper: "in ZooKeeper" };
const TYPES = { time: "datetime-local", shift: "number", offset: "number" };

export class ResetDialog {
  constructor(post) {
    this.dialog = new ActDialog("reset", post);
  }

  open(group, topics) {
    const topic = select("topic", { "": "all topics with offsets", ...Object.fromEntries(topics.map((each) => [each, each])) });
    const kind = select("kind", KINDS), to = select("to", TO), value = html("input", { name: "value", "aria-label": "value", required: "", step: 1, hidden: "", disabled: "" });
    to.addEventListener("change", () => show(value, TYPES[to.value]));
    const number = () => (to.value === "time" ? new Date(value.value).getTime() : Number(value.value));
    const request = () => ({ action: "plan-reset", group, type: kind.value, topics: topic.value ? [topic.value] : [], to: to.value, ...(value.hidden ? {} : { value: number() }) });
    this.dialog.open(`Reset the offsets of group ${group}`,
      [html("label", {}, "topic ", topic), html("label", {}, "group ", kind), html("label", {}, "to ", to), value],
      { request, action: "reset-offsets", planned, done: (told) => `${counted(told.count, "offset was", "offsets were")} reset, as ${told.principal}.` });
  }
}

// A hidden field is disabled, so that the browser does not check it.
function show(field, type) {
  field.hidden = field.disabled = !type;
  if (type && field.type !== type) Object.assign(field, { type, value: "" });
}

function planned(told) {
  const changed = told.rows.filter((row) => row.current !== row.new).length;
  const heads = html("tr", {}, ["topic", "partition", "now", "then"].map((each) => html("th", {}, each)));
  const rows = told.rows.map((row) => html("tr", {}, html("td", {}, row.topic), html("td", { class: "number" }, row.partition),
    html("td", { class: "number" }, row.current ?? "none"), html("td", { class: `number${row.current === row.new ? "" : " changed"}` }, row.new)));
  return { label: `reset ${counted(told.rows.length, "offset", "offsets")} as ${told.principal}`,
    shown: [html("p", {}, `${changed} of ${counted(told.rows.length, "offset", "offsets")} would change. Nothing has been changed yet.`),
      html("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "The plan" }, html("table", {}, heads, rows))] };
}

const select = (name, options) => html("select", { name }, Object.entries(options).map(([value, text]) => html("option", { value }, text)));
