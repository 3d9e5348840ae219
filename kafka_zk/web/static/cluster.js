// The cluster at one moment: who lives, who leads, who owns what, and what goes from whom to whom just now.

import { clock, colour, counted, foldButton, html, readable, svg } from "./dom.js";
import { isOpen, toggle } from "./folds.js";
import { clusterLegend } from "./legend.js";

const BOX = { width: 150, height: 46, gap: 18 };
const SMALL = { width: 54, height: 24, gap: 6 }, IN_ROW = 8;
const ROW = 84;
const MOST_BOXES = 8, MOST_NAMED = 20, MOST_TOPICS = 300, MANY_BROKERS = 12, MOST_SORTED_BY_NAME = 12;

// `again` draws once more, when something was folded; `filter`: what names must contain.
export function clusterView(cluster, recording, flow, measured, filter, again) {
  return html("div", { class: "columns" },
    html("div", {}, html("h2", {}, "Who talks to whom"), flowPicture(cluster, recording, flow), clusterLegend(),
      ...groups(cluster, measured, filter, again)),
    html("div", { class: "wide" }, ...partitions(cluster, measured, filter, again), ...others(cluster)));
}

// Members of both kinds of groups; those of ZooKeeper have a session of their own.
function membersOf(cluster) {
  const owned = (group, id) => Object.values(group.owners).filter((owner) => owner.startsWith(id)).length;
  return [
    ...cluster.groups.flatMap((group) => group.members.map(({ id }) => ({ id, group: group.name, count: owned(group, id) }))),
    ...cluster.coordinated.flatMap((group) => Object.entries(group.members ?? {}).map(([id, tps]) =>
      ({ id, group: group.name, count: tps.length, broker: true }))),
  ];
}

function flowPicture(cluster, recording, flow) {
  const ids = [...new Set([...recording.known_brokers, ...cluster.brokers.map((each) => each.id)])].sort((a, b) => a - b);
  const all = membersOf(cluster), members = all.length > MOST_BOXES ? groupsOf(all) : all.map((each) => ({ ...each, ids: [each.id] }));
  const more = members.splice(MOST_BOXES).length;
  const many = ids.length > MOST_BOXES;
  const width = many ? IN_ROW * (SMALL.width + SMALL.gap) : Math.max(ids.length, members.length, 2) * (BOX.width + BOX.gap);
  const down = many ? (Math.ceil(ids.length / IN_ROW) - 1) * (SMALL.height + SMALL.gap) : 0;
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${(members.length ? 3 : 2) * ROW - 8 + down}`, width: Math.min(width, ids.length > 4 ? 900 : 560), role: "img",
    "aria-label": said(cluster, ids, all),
  });
  const places = new Map([["zookeeper", { x: width / 2, y: 26, ...BOX }]]);
  ids.forEach((id, index) => places.set(`broker-${id}`, many ? smallPlace(index) : { ...BOX, x: ((index + 0.5) * width) / ids.length, y: 26 + ROW }));
  members.forEach((each, index) => each.ids.forEach((id) => places.set(id, { ...BOX,
    width: Math.min(BOX.width, width / members.length - 6), x: ((index + 0.5) * width) / members.length, y: 26 + 2 * ROW + down })));
  arrows(picture, places, flow);
  const epoch = cluster.controller.epoch === null ? "" : `controller epoch ${cluster.controller.epoch}`;
  picture.append(box(places.get("zookeeper"), "ZooKeeper", epoch, "var(--soft)", true));
  for (const id of ids) {
    const alive = cluster.brokers.some((each) => each.id === id), role = cluster.controller.broker === id ? " ★" : "";
    const note = alive ? "♥ session lives" : "no session";
    picture.append(many ? smallBox(places.get(`broker-${id}`), id, role, note, alive)
      : box(places.get(`broker-${id}`), `broker ${id}${role}`, note, colour(`broker ${id}`), alive));
  }
  for (const { id, group, count, broker, ids: [first], of } of members) {
    const member = box(places.get(first), of ? counted(of, "member", "members") : readable(id), `${broker ? "" : "♥ "}${group} · ${counted(count, "partition", "partitions")}`,
      colour(id), true, of ? `group ${group}` : `member ${id} of group ${group} ${broker ? "in the broker" : "in ZooKeeper"}`);
    member.dataset.group = group;
    picture.append(member);
  }
  return more ? html("div", {}, picture, html("p", { class: "soft" }, `and ${counted(more, "more group", "more groups")}`)) : picture;
}

// Too many members to be shown one by one: a box for each group.
const groupsOf = (members) => [...Map.groupBy(members, (each) => `${each.broker} ${each.group}`).values()].map((own) => ({
  ...own[0], id: own[0].group, ids: own.map((each) => each.id), of: own.length, count: own.reduce((sum, each) => sum + each.count, 0) }));

const smallPlace = (index) => ({ ...SMALL, x: ((index % IN_ROW) + 0.5) * (SMALL.width + SMALL.gap),
  y: 16 + ROW + Math.floor(index / IN_ROW) * (SMALL.height + SMALL.gap) });

function said(cluster, ids, members) {
  const dead = ids.filter((id) => !cluster.brokers.some((each) => each.id === id));
  return `ZooKeeper, brokers ${ids.join(", ")}${dead.length ? `, of which ${dead.join(", ")} have no session` : ""}; `
    + `controller: ${cluster.controller.broker === null ? "nobody" : `broker ${cluster.controller.broker}`}; `
    + `members: ${members.slice(0, MOST_NAMED).map(({ id, group }) => `${readable(id)} of ${group}`).join(", ") || "none"}`
    + `${members.length > MOST_NAMED ? ` and ${members.length - MOST_NAMED} more` : ""}`;
}

function box(place, title, note, fill, alive, whole = title) {
  const most = Math.floor(place.width / 6.8);
  const fits = (text) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  return svg("g", { class: alive ? "" : "gone" }, svg("title", {}, `${whole}: ${note}`), ...frame(place, 7, fill),
    svg("text", { x: place.x, y: place.y - 3, "text-anchor": "middle", "font-weight": 600 }, fits(title)),
    svg("text", { x: place.x, y: place.y + 13, "text-anchor": "middle", class: alive ? "soft" : "bad" }, fits(note)));
}

// A broker among many.
const smallBox = (place, id, role, note, alive) => svg("g", { class: alive ? "" : "gone", "data-broker-box": id },
  svg("title", {}, `broker ${id}${role}: ${note}`), ...frame(place, 5, colour(`broker ${id}`)),
  svg("text", { x: place.x + 2, y: place.y + 5, "text-anchor": "middle", class: alive ? "" : "bad" }, `${alive ? "" : "✗ "}${id}${role}`));

const frame = ({ x, y, width, height }, edge, fill) => [
  svg("rect", { class: "box", x: x - width / 2, y: y - height / 2, width, height, rx: 6 }),
  svg("rect", { x: x - width / 2, y: y - height / 2, width: edge, height, rx: 3, fill })];

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
    const y1 = start.y + ((down || 1) * start.height) / 2;
    const y2 = end.y + ((-down || 1) * end.height) / 2;
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

// A topic is one line, which unfolds into its partitions.
function partitions(cluster, measured, filter, again) {
  if (!cluster.partition_count) return [html("h2", {}, "Partitions"), html("p", { class: "soft" }, "No topics.")];
  const ids = [...new Set([...cluster.brokers.map((each) => each.id),
    ...cluster.topics.flatMap((topic) => [...Object.keys(topic.leaders).map(Number), ...topic.partitions.flatMap((each) => each.replicas)])])]
    .filter((id) => id >= 0).sort((a, b) => a - b);
  const topics = cluster.topics.filter((topic) => topic.name.includes(filter)).toSorted((a, b) => a.internal - b.internal
    || (cluster.topics.length > MOST_SORTED_BY_NAME ? troubles(b) - troubles(a) : 0));
  const name = ids.length > MANY_BROKERS ? (id) => id : (id) => `broker ${id}`;
  return [html("h2", {}, "Partitions ", html("small", { class: "soft" }, "who leads, who follows")),
    html("table", { class: ids.length > MANY_BROKERS ? "dense" : "" },
      html("tr", {}, html("th", {}, "partition"), ids.map((id) => html("th", { class: "cell", title: `broker ${id}` }, name(id))),
        html("th", { title: "leader epoch: one more for each new leader" }, "epoch"),
        html("th", { class: "number", title: "high watermark: consumers see the records below this offset" }, "end")),
      topics.slice(0, MOST_TOPICS).flatMap((topic) => topicRows(topic, ids, measured, again))),
    topics.length > MOST_TOPICS ? html("p", { class: "soft" }, `${topics.length - MOST_TOPICS} more topics: use the filter`) : ""];
}

// One without a leader is worse than any number that is not in sync.
const troubles = (topic) => (topic.leaders["-1"] ?? 0) * 1e6 + topic.under_replicated;

function topicRows(topic, ids, measured, again) {
  const name = `topic ${topic.name}`;
  const open = topic.partitions.length > 0 && isOpen(name, !topic.internal);
  const leaderless = topic.leaders["-1"] ?? 0;
  const rows = open ? topic.partitions.map((each) => html("tr", {},
    html("td", { class: "below" }, `${topic.name}-${each.partition}`),
    each.leader === -1 && each.epoch !== null ? leaderlessCells(each, ids) : ids.map((id) => html("td", { class: "cell" }, replica(each, id))),
    html("td", { class: "soft" }, each.epoch === null ? "not yet led" : each.epoch,
      each.adding ? ` adding ${each.adding.join(", ")}; removing ${each.removing.join(", ")}` : ""),
    html("td", { class: "number" }, measured[`end ${topic.name}-${each.partition}`] ?? ""))) : [];
  const faults = html("span", { class: "bad" }, [leaderless ? `${leaderless} without a leader` : "",
    topic.under_replicated ? `${topic.under_replicated} not in sync` : ""].filter(Boolean).join(", "));
  const cells = open ? html("td", { colspan: ids.length + 2, class: "faults" }, faults) : ids.map((id) => html("td", { class: "cell" },
    topic.leaders[id] ? tinted(ids.length > MANY_BROKERS ? topic.leaders[id] : `leads ${topic.leaders[id]}`, colour(`broker ${id}`)) : ""));
  return [html("tr", { class: "topic" },
    html("td", {}, foldButton(name, open, () => { toggle(name, open); again(); }, topic.name,
      open ? "" : html("span", { class: "soft", title: counted(topic.count, "partition", "partitions") }, ` ×${topic.count}`)), open ? "" : html("div", { class: "below" }, faults)),
    cells), ...rows,
  topic.partitions.length && open && topic.count > topic.partitions.length
    ? html("tr", {}, html("td", { class: "soft" }, `and ${topic.count - topic.partitions.length} more`)) : ""].filter(Boolean);
}

function leaderlessCells(partition, ids) {
  return ids.map((id) => html("td", { class: "cell" }, partition.replicas.includes(id)
    ? html("span", { class: "nobody", title: `nobody leads; broker ${id} has a replica`, "data-role": "leaderless" }, "no leader") : ""));
}

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
  if (fill) { element.style.background = fill; element.style.color = "#000"; element.style.padding = "0 .5em"; element.style.borderRadius = "3px"; }
  else element.style.color = "var(--ink)";
  return element;
}

// Both kinds of groups in the same words: who owns what, and how far it is committed.
function groups(cluster, measured, filter, again) {
  const inZooKeeper = cluster.groups.filter((group) => group.members.length || Object.keys(group.owners).length)
    .map((group) => ({ ...group, where: "in ZooKeeper" }));
  const inBroker = cluster.coordinated.map((group) => ({ name: group.name, offsets: {},
    where: `in the broker${group.generation >= 0 ? `, generation ${group.generation}` : ""}`,
    owners: Object.fromEntries(Object.entries(group.members ?? {}).flatMap(([member, tps]) => tps.map((tp) => [tp, member]))) }));
  return [...inZooKeeper, ...inBroker].filter((group) => group.name.includes(filter) || Object.keys(group.owners).some((tp) => tp.includes(filter)))
    .flatMap((group) => groupTable(group, measured, again));
}

function groupTable(group, measured, again) {
  const key = `group ${group.where.slice(0, 8)} ${group.name}`;
  const tps = [...new Set([...Object.keys(group.owners), ...Object.keys(group.offsets)])]
    .sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  const nobodys = tps.filter((tp) => !group.owners[tp]).length;
  const open = isOpen(key, tps.length <= 30);
  return [html("h2", {}, foldButton(key, open, () => { toggle(key, open); again(); }, `Group ${group.name} `,
    html("small", { class: "soft" }, `${group.where} · ${counted(tps.length, "partition", "partitions")} `),
    nobodys ? html("small", { class: "bad" }, `${nobodys} owned by nobody`) : "")),
  open ? html("table", {}, html("tr", {}, html("th", {}, "partition"), html("th", {}, "owner"), html("th", { class: "number" }, "committed"),
    html("th", { class: "number", title: "records that it has not committed yet" }, "lag")),
    tps.slice(0, 300).map((tp) => html("tr", {}, html("td", {}, tp), html("td", {}, group.owners[tp]
      ? html("span", { class: "tag", title: group.owners[tp] }, tinted(readable(group.owners[tp]), colour(memberOf(group.owners[tp], group))))
      : html("span", { class: "bad" }, "nobody")), ...behind(group, tp, measured)))) : ""];
}

function behind(group, tp, measured) {
  const committed = group.offsets[tp] ?? measured[`committed ${group.name}: ${tp}`];
  const end = measured[`end ${tp}`];
  const lag = committed === undefined || end === undefined ? "" : Math.max(0, end - Number(committed));
  return [html("td", { class: "number" }, committed ?? ""), html("td", { class: "number" }, lag)];
}

// In ZooKeeper an owner is a thread of a member.
const memberOf = (owner, group) => (group.members?.some((each) => each.id === owner) ? owner
  : group.where.startsWith("in Z") ? owner.replace(/-\d+$/, "") : owner);

function others(cluster) {
  const found = [];
  if (cluster.pending.length) found.push(html("h2", {}, "Waits for the controller"),
    html("p", { class: "mono" }, cluster.pending.join("\n")));
  if (cluster.faults.length) found.push(html("h2", {}, "Znodes that cannot be understood"),
    html("pre", {}, cluster.faults.join("\n")));
  return found;
}
