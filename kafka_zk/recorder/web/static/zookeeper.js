// ZooKeeper's own health: what the headline says of it, its box, and a table of its servers.

import { clock, html, svg } from "./dom.js";

const MOST_NAMED = 5;
const LEADS = { leader: "leads", follower: "follows", observer: "observes", standalone: "serves alone", "read-only": "serves only reads", answers: "answers" };

// Nothing that is in znodes is current while ZooKeeper does not serve.
export const isDown = (health) => health?.state === "down";
export const since = (health) => clock(health.since_ms).slice(0, 8);

// Parts of the headline.
export function troubles(health) {
  if (!health) return [];
  const out = health.servers.filter((each) => each.state === "down");
  if (isDown(health)) {
    const whole = health.why.startsWith("no quorum") ? "ZooKeeper has had no quorum" : "ZooKeeper has not answered";
    return [`${whole} since ${since(health)}${out.length ? ` (${out.slice(0, MOST_NAMED).map((each) => `${each.name}: ${reason(each)}`).join("; ")})` : ""}; `
      + "brokers keep their state, no election can happen; the znodes below are those of that time"];
  }
  return out.map((each) => `ZooKeeper server ${each.name} ${each.why.startsWith("no quorum") ? "has had no quorum" : "has not answered"} since ${since(each)} (${reason(each)}), `
    + `${health.servers.length - out.length} of ${health.servers.length} serve`);
}

const reason = (server) => server.why.slice(server.why.indexOf(": ") + 2);

// Above the znodes, while they may be old.
export const notice = (health) => (isDown(health) ? [html("p", { class: "headline wrong" }, `ZooKeeper has not served since ${since(health)}: these are its znodes as they were then.`)] : []);

// The words in ZooKeeper's box.
export function boxNote(health, epoch) {
  if (!health) return { text: epoch, bad: false };
  if (isDown(health)) return { text: `${health.why.startsWith("no quorum") ? "no quorum" : "no answer"} since ${since(health)}`, bad: true };
  const serving = health.servers.filter((each) => each.state !== "down").length;
  return { text: [epoch, health.servers.length > 1 ? `${serving} of ${health.servers.length} servers serve` : ""].filter(Boolean).join(" · "), bad: serving < health.servers.length };
}

export function boxText(place, health, epoch) {
  const { text, bad } = boxNote(health, epoch);
  return svg("text", { x: place.x, y: place.y + 4.5, "text-anchor": "middle", "data-zookeeper": isDown(health) ? "down" : "serves" },
    svg("tspan", { "font-weight": 600 }, "ZooKeeper"), svg("tspan", { class: bad ? "bad" : "soft" }, text ? `  ${text}` : ""));
}

// One row for each server of the connection string.
export function serversTable(health) {
  if (!health?.servers.length) return [];
  const number = (value) => html("td", { class: "number" }, value ?? "");
  const head = [["server"], ["state"], ["since"], ["clients", "connections"], ["queue", "requests that wait"],
    ["answer", "to a four-letter word: not a request of a client"], ["epoch", "the high half of its zxids: increases with each new leader of ZooKeeper"]];
  return [html("h2", {}, "ZooKeeper ", html("small", { class: "soft" }, "its servers")),
    html("table", { class: "servers" }, html("tr", {}, head.map(([name, title], index) => html("th", { title, class: index > 2 ? "number" : null }, name))),
      health.servers.map((each) => html("tr", { "data-server": each.name, "data-state": each.state },
        html("td", {}, each.name), html("td", { title: each.why, class: each.state === "down" ? "bad" : "" }, LEADS[each.state] ?? each.why.split(": ")[0]),
        html("td", { class: "soft" }, since(each)), number(each.connections), number(each.outstanding),
        number(each.response_ms === null || each.response_ms === undefined ? "" : each.response_ms ? `${each.response_ms} ms` : "< 2 ms"), number(each.epoch))))];
}
