// The cluster at one moment: who lives, who leads, who owns what, and what goes from whom to whom just now.

import { clock, colour, html, svg } from "./dom.js";

const BOX = { width: 150, height: 46, gap: 18 };
const ROW = 84;
const MOST_BOXES = 8;
const EXPECT = {
  kill: "Its session runs out, then the controller elects other leaders.",
  restart: "It registers once its old session is over, and catches up.",
  pause: "Nobody gets an answer; if that lasts longer than its session, others lead.",
  resume: "If its session is over it registers again and learns what it leads now.",
  expire: "Its znodes go at once; it notices and registers in a new session.",
};

export function clusterView(cluster, recording, flow, breakBroker) {
  return html("div", { class: "columns" },
    html("div", {}, html("h2", {}, "Who talks to whom"), flowPicture(cluster, recording, flow), recording.can_break ? breaking(recording, breakBroker) : null),
    html("div", {}, ...partitions(cluster)),
    html("div", {}, ...groups(cluster), ...coordinated(cluster), ...others(cluster)));
}

function flowPicture(cluster, recording, flow) {
  const ids = [...new Set([...recording.known_brokers, ...cluster.brokers.map((each) => each.id)])].sort((a, b) => a - b);
  const members = cluster.groups.flatMap((group) => group.members.map((member) => member.id)).slice(0, MOST_BOXES);
  ids.splice(MOST_BOXES);
  const columns = Math.max(ids.length, members.length, 2);
  const width = columns * (BOX.width + BOX.gap);
  const rows = members.length ? 3 : 2;
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${rows * ROW - 8}`, width: Math.min(width, ids.length > 4 ? 900 : 440), role: "img",
    "aria-label": `ZooKeeper, ${ids.length} brokers, ${members.length} members of groups`,
  });
  const places = new Map([["zookeeper", { x: width / 2, y: 26 }]]);
  ids.forEach((id, index) => places.set(`broker-${id}`, { x: ((index + 0.5) * width) / ids.length, y: 26 + ROW }));
  members.forEach((id, index) => places.set(id, { x: ((index + 0.5) * width) / members.length, y: 26 + 2 * ROW }));
  arrows(picture, places, flow);
  const epoch = cluster.controller.epoch === null ? "" : `controller epoch ${cluster.controller.epoch}`;
  picture.append(box(places.get("zookeeper"), "ZooKeeper", epoch, "var(--paper)", true));
  for (const id of ids) {
    const alive = cluster.brokers.find((each) => each.id === id);
    const role = cluster.controller.broker === id ? " ★ controller" : "";
    const note = alive ? `♥ session …${alive.session.slice(-5)}` : "no session";
    picture.append(box(places.get(`broker-${id}`), `broker ${id}${role}`, note, colour(`broker ${id}`), alive));
  }
  for (const id of members) picture.append(box(places.get(id), short(id), "member", colour(id), true));
  return picture;
}

function box(place, title, note, fill, alive) {
  return svg("g", { class: alive ? "" : "gone" },
    svg("rect", { class: "box", x: place.x - BOX.width / 2, y: place.y - BOX.height / 2, width: BOX.width,
      height: BOX.height, rx: 8 }),
    svg("rect", { x: place.x - BOX.width / 2, y: place.y - BOX.height / 2, width: 7, height: BOX.height, rx: 3, fill }),
    svg("text", { x: place.x, y: place.y - 3, "text-anchor": "middle", "font-weight": 600 }, title),
    svg("text", { x: place.x, y: place.y + 13, "text-anchor": "middle", class: "soft" }, note));
}

// What happened last, as arrows: a watch goes down from ZooKeeper, a write goes up, a request goes across.
function arrows(picture, places, flow) {
  picture.append(svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6,
    markerHeight: 6, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", fill: "context-stroke" }))));
  for (const each of flow) {
    const [from, to] = ends(each);
    const start = places.get(from), end = places.get(to);
    if (!start || !end || start === end) continue;
    const down = end.y > start.y ? 1 : end.y < start.y ? -1 : 0;
    const bend = down === 0 ? 45 : 0;
    const y1 = start.y + (down === 0 ? BOX.height / 2 : (down * BOX.height) / 2);
    const y2 = end.y + (down === 0 ? BOX.height / 2 : (-down * BOX.height) / 2);
    picture.append(svg("path", { d: `M${start.x} ${y1}Q${(start.x + end.x) / 2} ${(y1 + y2) / 2 + bend} ${end.x} ${y2}`,
      fill: "none", stroke: colour(from === "zookeeper" ? to : from), "stroke-width": 2, "marker-end": "url(#tip)",
      "data-seq": each.seq }, svg("title", {}, `${clock(each.time_ms)} ${each.actor}: ${each.line}`)));
  }
}

function ends(entry) {
  if (entry.kind === "WatchFired") return ["zookeeper", process(entry.actor)];
  if (entry.kind === "RequestSent") {
    const broker = /broker (\d+)/.exec(entry.line);
    return [process(entry.actor), broker ? `broker-${broker[1]}` : ""];
  }
  if (["created", "changed", "deleted", "Reread"].includes(entry.kind)) return [process(entry.actor), "zookeeper"];
  return ["", ""];
}

const process = (actor) => actor.replace(/^controller-/, "broker-");
const short = (id) => (id.length > 20 ? `…${id.slice(-19)}` : id);

function breaking(recording, breakBroker) {
  const toast = html("p", { class: "toast", role: "status" });
  const button = (id, action) => html("button", { title: EXPECT[action], "data-break": `${action}-${id}`,
    onclick: async () => { toast.textContent = EXPECT[action]; toast.textContent = await breakBroker(action, id); } },
  action);
  return html("div", {}, html("h2", {}, "Break it"),
    html("div", { class: "brokers" }, recording.known_brokers.map((id) => html("div", {}, `broker ${id} `,
      Object.keys(EXPECT).map((action) => button(id, action))))), toast);
}

function partitions(cluster) {
  const ids = [...new Set(cluster.topics.flatMap((topic) => topic.partitions.flatMap((each) => each.replicas)))];
  ids.sort((a, b) => a - b);
  if (!cluster.partition_count) return [html("p", { class: "soft" }, "No topics.")];
  if (!ids.length) return aggregated(cluster);
  const topics = cluster.topics.toSorted((a, b) => internal(a.name) - internal(b.name));
  const rows = topics.flatMap((topic) => topic.partitions.map((each) => html("tr", {},
    html("td", {}, `${topic.name}-${each.partition}`),
    ids.map((id) => html("td", { class: "cell" }, replica(each, id))),
    html("td", { class: "soft" }, each.epoch === null ? "not yet led" : each.epoch,
      each.adding ? ` adding ${each.adding.join(", ")}; removing ${each.removing.join(", ")}` : ""))));
  return [html("h2", {}, "Partitions"), html("table", {},
    html("tr", {}, html("th", {}, "partition"), ids.map((id) => html("th", {}, `broker ${id}`)), html("th", { title: "leader epoch: one more for each new leader" }, "epoch")), rows)];
}

const internal = (name) => Number(name.startsWith("__"));

function replica(partition, id) {
  if (!partition.replicas.includes(id)) return "";
  const leads = partition.leader === id, inSync = partition.isr.includes(id);
  const told = leads ? "leads" : inSync ? "in sync" : "behind";
  return html("span", { class: `tag${inSync ? "" : " out"}`,
    style: null, title: `broker ${id} ${told}`, "data-role": told },
  tinted(leads ? "leads" : inSync ? "✓" : "behind", leads ? colour(`broker ${id}`) : null));
}

function tinted(text, fill) {
  const element = html("span", {}, text);
  if (fill) { element.style.background = fill; element.style.padding = "0 .5em"; element.style.borderRadius = "3px"; }
  else element.style.color = "var(--ink)";
  return element;
}

function aggregated(cluster) {
  return [html("h2", {}, `${cluster.partition_count} partitions`), html("table", {},
    html("tr", {}, ["topic", "partitions", "led by", "behind"].map((name) => html("th", {}, name))),
    cluster.topics.slice(0, 500).map((topic) => html("tr", {}, html("td", {}, topic.name),
      html("td", {}, topic.count),
      html("td", {}, Object.entries(topic.leaders).map(([id, count]) => `${id === "-1" ? "nobody" : `broker ${id}`}: ${count}`).join(", ")),
      html("td", { class: topic.under_replicated ? "bad" : "" }, topic.under_replicated || ""))))];
}

function groups(cluster) {
  return cluster.groups.filter((group) => group.members.length || Object.keys(group.owners).length).flatMap((group) => [
    html("h2", {}, `Group ${group.name} (in ZooKeeper)`),
    html("table", {}, html("tr", {}, html("th", {}, "partition"), html("th", {}, "owner"), html("th", {}, "committed")),
      [...new Set([...Object.keys(group.owners), ...Object.keys(group.offsets)])].sort().slice(0, 300).map((name) =>
        html("tr", {}, html("td", {}, name),
          html("td", {}, group.owners[name] ?? html("span", { class: "bad" }, "nobody")),
          html("td", {}, group.offsets[name] ?? ""))))]);
}

function coordinated(cluster) {
  return cluster.coordinated.flatMap((group) => [
    html("h2", {}, `Group ${group.name} (in the broker), generation ${group.generation}`),
    html("table", {}, html("tr", {}, html("th", {}, "member"), html("th", {}, "partitions")),
      Object.entries(group.members ?? {}).slice(0, 300).map(([member, owned]) => html("tr", {},
        html("td", { title: member }, short(member)), html("td", {}, owned.join(", ") || "none"))))]);
}

function others(cluster) {
  const found = [];
  if (cluster.pending.length) found.push(html("h2", {}, "Waits for the controller"),
    html("p", { class: "mono" }, cluster.pending.join("\n")));
  if (cluster.faults.length) found.push(html("h2", {}, "Znodes that cannot be understood"),
    html("pre", {}, cluster.faults.join("\n")));
  return found;
}
