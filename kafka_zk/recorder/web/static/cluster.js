// The cluster at one moment: live processes, leaders, owners, and recent messages between them.

import { clients } from "./clients.js";
import { clock, colour, counted, foldButton, html, middle, readable, svg } from "./dom.js";
import { isOpen, toggle } from "./folds.js";
import { clusterLegend } from "./legend.js";
import { boxNote, boxText, isDown, serversTable, troubles as ofZooKeeper } from "./zookeeper.js";

const BOX = { width: 116, height: 42, gap: 8 };
const SMALL = { width: 42, height: 20, gap: 4 }, IN_ROW = 8;
const BAR = 28, BETWEEN = 26, ABOVE = 14, MEMBERS_IN_ROW = 3;
const MOST_BOXES = 4, MOST_MEMBERS = 8, MOST_NAMED = 20, MOST_TOPICS = 300, MANY_BROKERS = 12, MOST_SORTED_BY_NAME = 12, MOST_NAME = 40;

// `again` redraws after an item was folded; `filter`: a part of the names to show; `records`, `batches`: views of single or
// sampled records, or null.
export function clusterView(cluster, recording, flow, measured, filter, again, records, batches) {
  stopped = isDown(recording.zookeeper);
  return html("div", {}, headline(cluster, recording, measured), records, html("div", { class: "columns" },
    html("div", {}, html("h2", {}, "Who talks to whom ", html("small", { class: "soft" }, "just now")),
      flowPicture(cluster, recording, flow, measured), clusterLegend(), ...groups(cluster, measured, filter, again)),
    html("div", { class: "wide" }, ...partitions(cluster, recording.age_ms, measured, filter, again), ...serversTable(recording.zookeeper), ...clients(cluster.clients, filter), ...others(cluster))), batches);
}

// The cluster's state in one line: its problems, or that it has none.
function headline(cluster, recording, measured) {
  const dead = recording.known_brokers.filter((id) => !cluster.brokers.some((each) => each.id === id));
  const silent = cluster.brokers.filter((each) => heartOf(each.session, measured) === SILENT).map((each) => each.id);
  const total = (count) => cluster.topics.reduce((sum, topic) => sum + count(topic), 0);
  const leaderless = total((topic) => topic.leaders["-1"] ?? 0), behind = total((topic) => topic.under_replicated);
  const stranded = total((topic) => dead.reduce((sum, id) => sum + (topic.leaders[id] ?? 0), 0));
  const wrong = [
    ...ofZooKeeper(recording.zookeeper),
    dead.length ? `${named(dead)} ${dead.length === 1 ? "has" : "have"} no session${stranded ? `, and ${dead.length === 1 ? "is" : "are"} still the leader of ${counted(stranded, "partition", "partitions")}` : ""}` : "",
    silent.length ? `ZooKeeper receives no heartbeats from ${named(silent)}` : "",
    cluster.brokers.length && cluster.controller.broker === null ? "there is no controller" : "",
    leaderless ? `${counted(leaderless, "partition has", "partitions have")} no leader` : "",
    behind ? `${behind} of ${counted(cluster.partition_count, "partition", "partitions")} ${behind === 1 ? "is" : "are"} not fully replicated` : "",
  ].filter(Boolean);
  const well = `All is well: ${counted(cluster.brokers.length, "broker", "brokers")}, `
    + (cluster.partition_count ? `${counted(cluster.partition_count, "partition", "partitions")}, all replicas in sync` : "no topics yet");
  const text = wrong.length ? `${wrong.join("; ")}.` : cluster.brokers.length ? `${well}.` : "No broker is registered.";
  return html("p", { class: `headline ${wrong.length ? "wrong" : ""}` }, text.slice(0, 1).toUpperCase() + text.slice(1));
}

const named = (ids) => `${ids.length === 1 ? "broker" : "brokers"} ${ids.slice(0, MOST_NAMED).join(", ")}${ids.length > MOST_NAMED ? ` and ${ids.length - MOST_NAMED} more` : ""}`;

// Members of both kinds of groups. Only those of ZooKeeper groups have a session.
function membersOf(cluster) {
  const owned = (group, id) => Object.values(group.owners).filter((owner) => owner.startsWith(id)).length;
  return [
    ...cluster.groups.flatMap((group) => group.members.map(({ id, session }) => ({ id, session, group: group.name, count: owned(group, id) }))),
    ...cluster.coordinated.flatMap((group) => Object.entries(group.members ?? {}).map(([id, tps]) =>
      ({ id, group: group.name, count: tps.length, broker: true }))),
  ];
}

// Brokers above, ZooKeeper in the middle, members below.
function flowPicture(cluster, recording, flow, measured) {
  const ids = [...new Set([...recording.known_brokers, ...cluster.brokers.map((each) => each.id)])].sort((a, b) => a - b);
  const all = membersOf(cluster), members = all.length > MOST_MEMBERS ? groupsOf(all) : all.map((each) => ({ ...each, ids: [each.id] }));
  const more = members.splice(MOST_MEMBERS).length;
  const many = ids.length > MOST_BOXES, size = many ? SMALL : BOX;
  const inRow = many ? IN_ROW : MOST_BOXES, rows = Math.ceil(ids.length / inRow) || 1;
  const width = Math.max(many ? IN_ROW * (SMALL.width + SMALL.gap) : Math.max(ids.length, 3) * (BOX.width + BOX.gap), MEMBERS_IN_ROW * (BOX.width + BOX.gap));
  const bar = ABOVE + rows * (size.height + size.gap) - size.gap + BETWEEN, below = bar + BAR + BETWEEN;
  const memberRows = Math.ceil(members.length / MEMBERS_IN_ROW);
  const height = memberRows ? below + memberRows * (BOX.height + BOX.gap) : bar + BAR + 4;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": said(cluster, ids, all) });
  const places = new Map([["zookeeper", { x: width / 2, y: bar + BAR / 2, width: width - 4, height: BAR }]]);
  inRows(ids, inRow, size, width, ABOVE).forEach((place, index) => places.set(`broker-${ids[index]}`, place));
  inRows(members, MEMBERS_IN_ROW, BOX, width, below).forEach((place, index) => members[index].ids.forEach((id) => places.set(id, place)));
  arrows(picture, places, flow);
  const epoch = cluster.controller.epoch === null ? "" : `controller epoch ${cluster.controller.epoch}`;
  picture.append(zookeeper(places.get("zookeeper"), recording.zookeeper, epoch));
  for (const id of ids) {
    const broker = cluster.brokers.find((each) => each.id === id), role = cluster.controller.broker === id ? " ★" : "";
    const heart = broker ? heartOf(broker.session, measured) : null;
    const note = { [STEADY]: "session lives", [HEARD]: "session lives", [SILENT]: "not heard from", [UNKNOWN]: "not known" }[heart] ?? "no session";
    picture.append(many ? smallBox(places.get(`broker-${id}`), id, role, note, heart)
      : box(places.get(`broker-${id}`), `broker ${id}${role}`, note, colour(`broker ${id}`), heart, broker !== undefined, heart && `broker-${id}`));
  }
  for (const { id, group, count, broker, session, ids: [first], of } of members) {
    const heart = broker || of ? null : heartOf(session, measured);
    const member = box(places.get(first), of ? counted(of, "member", "members") : readable(id), `${group}: owns ${count}`,
      colour(id), heart, true, id, of ? `group ${group}` : `member ${id} of group ${group} ${broker ? "in the broker" : "in ZooKeeper"}`);
    member.dataset.group = group;
    picture.append(member);
  }
  return more ? html("div", {}, picture, html("p", { class: "soft" }, `and ${counted(more, "more group", "more groups")}`)) : picture;
}

// Places for `all`, at most `most` in a row, each row centred.
const inRows = (all, most, size, width, top) => all.map((_, index) => {
  const row = Math.floor(index / most), count = Math.min(most, all.length - row * most);
  const step = size === SMALL ? SMALL.width + SMALL.gap : width / Math.max(count, 1) > 2 * (BOX.width + BOX.gap) ? width / count : BOX.width + BOX.gap;
  const left = size === SMALL ? 0 : (width - count * step) / 2;
  return { width: size.width, height: size.height, x: left + (index % most + 0.5) * step, y: top + row * (size.height + size.gap) + size.height / 2 };
});

// One box for each group, if there are too many members.
const groupsOf = (members) => [...Map.groupBy(members, (each) => `${each.broker} ${each.group}`).values()].map((own) => ({
  ...own[0], id: own[0].group, ids: own.map((each) => each.id), of: own.length, count: own.reduce((sum, each) => sum + each.count, 0) }));

function said(cluster, ids, members) {
  const dead = ids.filter((id) => !cluster.brokers.some((each) => each.id === id));
  return `ZooKeeper, brokers ${ids.join(", ")}${dead.length ? `, of which ${dead.join(", ")} have no session` : ""}; `
    + `controller: ${cluster.controller.broker === null ? "none" : `broker ${cluster.controller.broker}`}; `
    + `members: ${members.slice(0, MOST_NAMED).map(({ id, group }) => `${readable(id)} of ${group}`).join(", ") || "none"}`
    + `${members.length > MOST_NAMED ? ` and ${members.length - MOST_NAMED} more` : ""}`;
}

function zookeeper(place, health, epoch) {
  return svg("g", { class: isDown(health) ? "gone" : "" }, svg("title", {}, `ZooKeeper: ${boxNote(health, epoch).text}`),
    ...frame(place, 7, isDown(health) ? "var(--bad)" : "var(--soft)"), boxText(place, health, epoch));
}

function box(place, title, note, fill, heart, alive, name, whole = title) {
  const fits = (text, each) => (text.length * each > place.width - 14 ? `${text.slice(0, Math.floor((place.width - 20) / each))}…` : text);
  const shown = fits(note, heart ? 6.2 : 5.6);
  const x = place.x + 3, from = Math.max(x - shown.length * 2.7 - 6, place.x - place.width / 2 + 16);
  return svg("g", { class: alive ? "" : "gone" }, svg("title", {}, `${whole}: ${note}`), ...frame(place, 7, fill),
    svg("text", { x, y: place.y - 3, "text-anchor": "middle", "font-weight": 600 }, middle(title, Math.floor((place.width - 14) / 6.8))),
    heart ? heartSign(heart, name, from, place.y + 13) : null,
    svg("text", { x: heart ? x + 6 : x, y: place.y + 13, "text-anchor": "middle", class: `note ${alive && !FADED.includes(heart) ? "soft" : "bad"}` }, shown));
}

// A broker among many.
const smallBox = (place, id, role, note, heart) => svg("g", { class: heart ? "" : "gone", "data-broker-box": id },
  svg("title", {}, `broker ${id}${role}: ${note}`), ...frame(place, 5, colour(`broker ${id}`)),
  svg("text", { x: place.x + 2, y: place.y + 4.5, "text-anchor": "middle", class: heart && !FADED.includes(heart) ? "" : "bad" },
    `${heart ? FADED.includes(heart) ? "♡ " : "" : "✗ "}${id}${role}`));

const frame = ({ x, y, width, height }, edge, fill) => [
  svg("rect", { class: "box", x: x - width / 2, y: y - height / 2, width, height, rx: 6 }),
  svg("rect", { x: x - width / 2, y: y - height / 2, width: edge, height, rx: 3, fill })];

// A session with recent heartbeats, one without, one whose heartbeats are unknown, and one while ZooKeeper does not serve.
const HEARD = "heard", SILENT = "silent", STEADY = "steady", UNKNOWN = "unknown";
const FADED = [SILENT, UNKNOWN];
let stopped = false; // while ZooKeeper does not serve, no session can be told from a lost one
const BEAT_MS = 900;
const beaten = new Map();
const heartOf = (session, measured) => stopped ? UNKNOWN : ({ 1: HEARD, 0: SILENT })[measured[`heard ${session}`]] ?? STEADY;

// Beats when it is drawn, at most once in BEAT_MS; nothing is animated between two pictures.
function heartSign(heart, name, x, y) {
  const now = performance.now(), beats = heart === HEARD && now - (beaten.get(name) ?? -BEAT_MS) >= BEAT_MS;
  if (beats) beaten.set(name, now);
  return svg("text", { class: `heart ${heart}${beats ? " beats" : ""}`, "data-heart": heart, x, y, "text-anchor": "middle" }, FADED.includes(heart) ? "♡" : "♥");
}

// The latest events as arrows, one for each process and direction; a write hides reads; requests are drawn above.
function arrows(picture, places, flow) {
  picture.append(svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6,
    markerHeight: 6, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", fill: "context-stroke" }))));
  const ways = Map.groupBy(flow.filter((each) => ends(each).every((end) => places.has(end))), (each) => ends(each).join("\n"));
  for (const [way, entries] of ways) {
    const [from, to] = way.split("\n"), start = places.get(from), end = places.get(to);
    if (start === end) continue;
    const words = entries.map((each) => WORDS[each.kind]), word = words.includes("write") ? "write" : words[0];
    const across = from !== "zookeeper" && to !== "zookeeper";
    const other = from === "zookeeper" ? end : start;
    const x = other.x + (from === "zookeeper" ? 9 : -9), side = other.y < places.get("zookeeper").y ? 1 : -1;
    const edge = other.y + (side * other.height) / 2, bar = places.get("zookeeper").y - (side * BAR) / 2;
    const [y1, y2] = from === "zookeeper" ? [bar, edge] : [edge, bar];
    const top = start.y - start.height / 2;
    picture.append(svg("path", { d: across ? `M${start.x} ${top}Q${(start.x + end.x) / 2} ${top - 20} ${end.x} ${end.y - end.height / 2}` : `M${x} ${y1}V${y2}`,
      fill: "none", stroke: colour(from === "zookeeper" ? to : from), "stroke-width": 2, "marker-end": "url(#tip)", "data-seq": entries.at(-1).seq },
    svg("title", {}, entries.map((each) => `${clock(each.time_ms)} ${readable(`${each.actor}: ${each.line}`)}`).join("\n"))));
    if (!across && other.width > SMALL.width) picture.append(svg("text", { class: "word", x: x + (from === "zookeeper" ? 5 : -5), y: edge + side * (BETWEEN / 2) + 3.5,
      "text-anchor": from === "zookeeper" ? "start" : "end" }, word));
  }
}

const WORDS = { WatchFired: "watch", Reread: "read", created: "write", changed: "write", deleted: "write", RequestSent: "request" };

function ends(entry) {
  if (entry.kind === "WatchFired") return ["zookeeper", process(entry.actor)];
  if (entry.kind === "RequestSent") {
    const broker = /answered by broker (\d+)/.exec(entry.line);
    return [process(entry.actor), broker ? `broker-${broker[1]}` : ""];
  }
  if (["created", "changed", "deleted", "Reread"].includes(entry.kind)) return [process(entry.actor), "zookeeper"];
  return ["", ""];
}

const process = (actor) => actor.replace(/^controller-/, "broker-");

// One line for each topic, which unfolds into its partitions.
function partitions(cluster, ageMs, measured, filter, again) {
  if (!cluster.partition_count) return [html("h2", {}, "Partitions"), html("p", { class: "soft" }, "No topics.")];
  const ids = [...new Set([...cluster.brokers.map((each) => each.id),
    ...cluster.topics.flatMap((topic) => [...Object.keys(topic.leaders).map(Number), ...topic.partitions.flatMap((each) => each.replicas)])])]
    .filter((id) => id >= 0).sort((a, b) => a - b);
  const topics = cluster.topics.filter((topic) => topic.name.includes(filter)).toSorted((a, b) => a.internal - b.internal
    || (cluster.topics.length > MOST_SORTED_BY_NAME ? troubles(b) - troubles(a) : 0));
  const alive = new Set(cluster.brokers.map((each) => each.id));
  const name = (id) => `${ids.length > MANY_BROKERS ? "" : "broker "}${id}${alive.has(id) ? "" : " ✗"}`;
  return [html("h2", {}, "Partitions ", html("small", { class: "soft" }, "who leads, who follows (✓ in sync)")),
    html("table", { class: ids.length > MANY_BROKERS ? "dense" : "" },
      html("tr", {}, html("th", {}, ids.length > MANY_BROKERS ? "partitions, by leading broker" : "partition"), ids.map((id) => html("th", { class: `cell${alive.has(id) ? "" : " bad"}`, title: `broker ${id}${alive.has(id) ? "" : ": no session"}` }, name(id))),
        html("th", { title: "leader epoch: increases with each new leader" }, "epoch"),
        html("th", { class: "number", title: `high watermark: consumers see the records below this offset; ${age(ageMs)}` }, "end", ageMs > FRESH_MS ? html("small", { class: "soft" }, ` ${age(ageMs)}`) : "")),
      topics.slice(0, MOST_TOPICS).flatMap((topic) => topicRows(topic, ids, alive, measured, again))),
    topics.length > MOST_TOPICS ? html("p", { class: "soft" }, `${topics.length - MOST_TOPICS} more topics: use the filter`) : ""];
}

const FRESH_MS = 3000;
const age = (ms) => (ms === null ? "brokers were not asked then" : `up to ${Math.ceil(ms / 1000)} s old`);

// A partition without a leader weighs more than any number of replicas that are not in sync.
const troubles = (topic) => (topic.leaders["-1"] ?? 0) * 1e6 + topic.under_replicated;

function topicRows(topic, ids, alive, measured, again) {
  const name = `topic ${topic.name}`;
  const open = topic.partitions.length > 0 && isOpen(name, !topic.internal);
  const leaderless = topic.leaders["-1"] ?? 0;
  const rows = open ? topic.partitions.map((each) => html("tr", {},
    html("td", { class: "below", title: `${topic.name}-${each.partition}` }, middle(`${topic.name}-${each.partition}`, MOST_NAME)),
    each.leader === -1 && each.epoch !== null ? leaderlessCells(each, ids) : ids.map((id) => html("td", { class: "cell" }, replica(each, id, alive, ids.length > MANY_BROKERS))),
    html("td", { class: "soft" }, each.epoch === null ? "not yet led" : each.epoch,
      each.adding ? ` adding ${each.adding.join(", ")}; removing ${each.removing.join(", ")}` : ""),
    html("td", { class: "number" }, measured[`end ${topic.name}-${each.partition}`] ?? ""))) : [];
  const faults = html("span", { class: "bad" }, [leaderless ? `${leaderless} without a leader` : "",
    topic.under_replicated ? `${topic.under_replicated} not in sync` : ""].filter(Boolean).join(", "));
  const cells = open ? html("td", { colspan: ids.length + 2, class: "faults" }, faults) : ids.map((id) => html("td", { class: "cell" },
    topic.leaders[id] ? tinted(ids.length > MANY_BROKERS ? topic.leaders[id] : `leads ${topic.leaders[id]}`, colour(`broker ${id}`)) : ""));
  return [html("tr", { class: "topic" },
    html("td", {}, foldButton(name, open, () => { toggle(name, open); again(); }, html("span", { title: topic.name }, middle(topic.name, MOST_NAME)),
      open ? "" : html("span", { class: "soft", title: counted(topic.count, "partition", "partitions") }, ` ×${topic.count}`)), open ? "" : html("div", { class: "below" }, faults)),
    cells), ...rows,
  topic.partitions.length && open && topic.count > topic.partitions.length
    ? html("tr", {}, html("td", { class: "soft" }, `and ${topic.count - topic.partitions.length} more`)) : ""].filter(Boolean);
}

function leaderlessCells(partition, ids) {
  return ids.map((id) => html("td", { class: "cell" }, partition.replicas.includes(id)
    ? html("span", { class: "vacant", title: `no leader; broker ${id} has a replica`, "data-role": "leaderless" }, "no leader") : ""));
}

function replica(partition, id, alive, isDense) {
  if (!partition.replicas.includes(id)) return "";
  const leads = partition.leader === id, inSync = partition.isr.includes(id);
  if (leads && !alive.has(id)) return html("span", { class: "vacant", "data-role": "stranded",
    title: `broker ${id} is the leader in the partition's znode, but has no session: the controller has not elected another leader yet` }, "was leader");
  const told = leads ? "leads" : inSync ? "in sync" : "behind";
  return html("span", { class: `tag${inSync ? "" : " out"}`,
    style: null, title: `broker ${id} ${told}`, "data-role": told },
  tinted(leads ? isDense ? "L" : "leads" : inSync ? "✓" : "behind", leads ? colour(`broker ${id}`) : null));
}

function tinted(text, fill) {
  const element = html("span", {}, text);
  if (fill) { element.style.background = fill; element.style.color = "#000"; element.style.padding = "0 .5em"; element.style.borderRadius = "3px"; }
  else element.style.color = "var(--ink)";
  return element;
}

// Groups of both kinds: owners and committed offsets.
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
  const ownerless = tps.filter((tp) => !group.owners[tp]).length;
  const open = isOpen(key, tps.length <= 30);
  return [html("h2", {}, foldButton(key, open, () => { toggle(key, open); again(); }, html("span", { title: group.name }, `Group ${middle(group.name, MOST_NAME)} `),
    html("small", { class: "soft" }, `${group.where} · ${counted(tps.length, "partition", "partitions")} `),
    ownerless ? html("small", { class: "bad" }, `${ownerless} without an owner`) : "")),
  open ? html("table", {}, html("tr", {}, html("th", {}, "partition"), html("th", {}, "owner"), html("th", { class: "number" }, "committed"),
    html("th", { class: "number", title: "records that are not committed yet" }, "lag")),
    tps.slice(0, 300).map((tp) => html("tr", {}, html("td", { title: tp }, middle(tp, MOST_NAME)), html("td", {}, group.owners[tp]
      ? html("span", { class: "tag", title: group.owners[tp] }, tinted(middle(readable(memberOf(group.owners[tp], group)), MOST_NAME), colour(memberOf(group.owners[tp], group))))
      : html("span", { class: "bad" }, "none")), ...behind(group, tp, measured)))) : ""];
}

function behind(group, tp, measured) {
  const committed = group.offsets[tp] ?? measured[`committed ${group.name}: ${tp}`];
  const end = measured[`end ${tp}`];
  const lag = committed === undefined || end === undefined ? "" : Math.max(0, end - Number(committed));
  return [html("td", { class: "number" }, committed ?? ""), html("td", { class: "number" }, lag)];
}

// In ZooKeeper, an owner is a thread of a member.
const memberOf = (owner, group) => (group.members?.some((each) => each.id === owner) ? owner
  : group.where.startsWith("in Z") ? owner.replace(/-\d+$/, "") : owner);

function others(cluster) {
  const found = [];
  if (cluster.pending.length) found.push(html("h2", {}, "Waiting for the controller"),
    html("p", { class: "mono" }, cluster.pending.join("\n")));
  if (cluster.faults.length) found.push(html("h2", {}, "Znodes that cannot be decoded"),
    html("pre", {}, cluster.faults.join("\n")));
  return found;
}
