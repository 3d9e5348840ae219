// Episodes: failovers, rebalances, sessions that ended; each with its cost and a link to its moment.

import { counted, html, readable, when } from "./dom.js";

export const FENCED = "fenced write"; // the subject of such episodes, as in fenced_writes.py

export function happenedView(told, choose) {
  const list = [...told.episodes].reverse();
  return html("div", {},
    html("h2", {}, "What happened"),
    html("p", { class: "soft" }, "The latest first. Choose one to see its cause, or to play it slowly."),
    told.count > list.length ? html("p", { class: "soft" }, `The latest ${list.length} of ${told.count}.`) : null,
    list.length ? html("ol", { class: "happened" }, list.map((each) => line(each, choose)))
      : html("p", { class: "soft" }, "No failover and no rebalance yet."));
}

function line(episode, choose) {
  return html("li", {}, html("button", { "data-episode": episode.seq, onclick: () => chooseEpisode(episode, choose) },
    html("span", { class: "soft" }, `${when(episode.from_ms)} ${readable(episode.subject)}`),
    html("span", {}, readable(episode.text)), html("span", { class: episode.lasts ? "bad" : "soft" }, price(episode))));
}

export const chooseEpisode = (episode, choose) =>
  choose(episode.seq, { ...episode, said: readable(`${episode.text} (${price(episode)})`.replace(" ()", "")) });

function price(episode) {
  if (episode.subject === "you" || episode.subject === FENCED) return "";
  const parts = [`took ${duration(episode.to_ms - episode.from_ms)}`];
  if (episode.lasts) parts[0] = "not over yet";
  if (episode.subject === "ZooKeeper" && !episode.lasts && episode.to_ms === episode.from_ms) return "";
  const who = episode.subject === "cluster" ? "a leader" : "an owner";
  if (episode.silent_ms) parts.push(`up to ${duration(episode.silent_ms)} without ${who}`);
  const counts = [[episode.writes, "write", "writes"], [episode.watches, "watch", "watches"], [episode.requests, "request", "requests"]];
  const told = counts.filter(([count]) => count).map((each) => counted(...each));
  if (told.length) parts.push(told.join(", "));
  return parts.join(" · ");
}

const duration = (ms) => (ms < 10000 ? `${ms} ms` : `${Math.round(ms / 1000)} s`);
