// Clients at one moment: who is connected as whom, whom quotas throttle, who was denied what and why.

import { clock, colour, counted, html } from "./dom.js";

// `filter`: what a name must contain.
export function clients({ connected, throttled, denied, left_out: leftOut }, filter) {
  const shown = (rows, ...names) => rows.filter((row) => !filter || names.some((name) => row[name].includes(filter)));
  return [
    ...table("Who is connected as whom", ["principal", "from", "listener", "connections", "broker"],
      shown(connected, "principal", "host").map((each) => [each.principal, each.host,
        `${each.listener} (${each.security_protocol})`, each.connection_count, broker(each.broker)]),
      leftOut ? `and ${counted(leftOut, "more connection", "more connections")}` : ""),
    ...table("Who is throttled", ["user", "client id", "quota", "uses", "bound", "held back, on average", "broker"],
      shown(throttled, "user", "client_id").map((each) => [each.user || "any", each.client_id || "any", each.key,
        each.used, each.bound, `${each.throttle_ms} ms`, broker(each.broker)])),
    ...table("Who was denied what", ["when", "principal", "from", "operation", "resource", "why", "times", "broker"],
      shown(denied, "principal", "host", "resource").map((each) => [clock(each.time_ms), each.principal, each.host,
        `${each.operation} (${each.request})`, each.resource, each.cause, each.times, broker(each.actor)])),
  ];
}

function table(title, columns, rows, more = "") {
  if (!rows.length) return [];
  return [html("h2", {}, title), html("table", { "data-clients": title },
    html("tr", {}, columns.map((each) => html("th", {}, each))),
    rows.map((cells) => html("tr", {}, cells.map((each) => html("td", { class: typeof each === "number" ? "number" : "" }, each))))),
  more ? html("p", { class: "soft" }, more) : ""];
}

function broker(actor) {
  const name = actor.replace("-", " "), mark = html("span", { class: "tag" }, name);
  mark.style.background = colour(name);
  return mark;
}
