// Clients at one moment: who is connected as whom, whom quotas throttle, who was denied what and why.

import { clock, colour, counted, html } from "./dom.js";

// `filter`: what a name must contain.
export function clients({ connected, throttled, denied, left_out: leftOut }, filter) {
  const shown = (rows, ...names) => rows.filter((row) => !filter || names.some((name) => row[name].includes(filter)));
  return [
    ...table("Who is connected as whom", ["principal", "from", "listener", "connections", "broker"],
      shown(connected, "principal", "host").map((each) => [each.principal, each.host,
        listener(each), each.connection_count, broker(each.broker)]),
      leftOut ? `and ${counted(leftOut, "more connection", "more connections")}` : ""),
    ...table("Who is throttled", ["user", "client id", "quota", "uses", "bound", "held back by", "broker"],
      shown(throttled, "user", "client_id").map((each) => [each.user || "any", each.client_id || "any", each.key,
        each.used, each.bound, `${number(each.throttle_ms)} ms`, broker(each.broker)])),
    ...table("Who was denied what", ["when", "principal", "what", "why", "times", "broker"],
      shown(denied, "principal", "host", "resource").map((each) => [clock(each.time_ms), `${each.principal} at ${each.host}`,
        `${each.operation} on ${each.resource} (${each.request})`, each.cause, each.times, broker(each.actor)])),
  ];
}

function table(title, columns, rows, more = "") {
  if (!rows.length) return [];
  return [html("h2", {}, title), html("table", { class: "clients", "data-clients": title },
    html("tr", {}, columns.map((each) => html("th", {}, each))),
    rows.map((cells) => html("tr", {}, cells.map(cell)))),
  more ? html("p", { class: "soft" }, more) : ""];
}

const number = (value) => value.toLocaleString("en");
const cell = (value) => typeof value === "number" ? html("td", { class: "number" }, number(value)) : html("td", {}, value);

// Most listeners have the name of their protocol.
function listener({ listener: name, security_protocol: protocol }) {
  return name === protocol ? name : `${name} (${protocol})`;
}

function broker(actor) {
  const name = actor.replace("-", " "), mark = html("span", { class: "tag" }, name);
  mark.style.background = colour(name);
  return mark;
}
