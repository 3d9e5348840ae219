// Lanes over time: holders, gaps without a holder, and events of each process and of ZooKeeper.

import { clock, colour, counted, middle, readable, svg } from "./dom.js";
import { isOpen, toggle } from "./folds.js";
import { chooseEpisode, FENCED } from "./happened.js";
import { asked, atMoment, rates, sparkline } from "./sparkline.js";

const ROW = 18, LABEL = 230, TOP = 18, RIGHT = 10, WORD_WIDTH = 6.3, TICK = 85, MOST_LABEL = 30, MEASURED_LABEL = 22;
const ZOOKEEPER = "ZooKeeper"; // a lane for all writes, in the colours of their writers
const FROM_ZOOKEEPER = new Set(["created", "changed", "deleted", "session began", "session ended"]);
const DETAILS = new Set(["WatchArmed", "WatchSeen", "WatchGone", "PartitionsMoved", "ReplicasMoved", "ClientsSeen",
  "ReplicaSeen", "RecordAcknowledged", "RecordRead"]);
export const isDetail = (entry) => DETAILS.has(entry.kind);
const MOST_LANES = 300, MOST_LANES_OF_TOPIC = 100, MOST_PROCESSES = 12;
const TITLES = { leader: (stem) => `${stem} leaders`, owner: (stem) => `${stem} owners`,
  assigned: (stem) => `${stem} owners`, broker: () => "brokers", member: () => "members" };
const WHOSE = { broker: "brokers", member: "members" };

// `told`: episodes; `held`: spans and groups from the server; `again` redraws after an item was folded. Returns the picture and
// `wind`, which moves it to another moment without a redraw.
export function timelinePicture(width, range, told, held, samples, entries, moment, chosen, every, choose, again) {
  const scale = (ms) => LABEL + ((ms - range.from_ms) / Math.max(1, range.to_ms - range.from_ms)) * (width - LABEL - RIGHT);
  const lanes = [...episodeLanes(told, range), ...lanesOf(held, entries.buckets ?? entries.entries.filter((each) => every || !isDetail(each)), Boolean(entries.buckets))];
  const height = TOP + lanes.length * ROW + 8;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height,
    role: "group", "aria-label": "who held what, and what happened, by time" });
  picture.append(stripes());
  axis(picture, range, scale, width, height);
  const marks = Map.groupBy(entries.entries ?? [], (each) => each.actor);
  marks.set(ZOOKEEPER, (entries.entries ?? []).filter((each) => each.actor === ZOOKEEPER || (each.zxid && FROM_ZOOKEEPER.has(each.kind))));
  const drawing = { picture, scale, range, again, samples, winds: [] };
  lanes.forEach((lane, index) => {
    const y = TOP + index * ROW;
    if (lane.episodes) episodeRow(drawing, lane, y, choose);
    else if (lane.group) groupRow(drawing, lane.group, y);
    else laneRow(drawing, lane, y);
    for (const actor of lane.actors ?? []) {
      if (entries.buckets) buckets(picture, entries, actor, y, scale);
      else dots(picture, (marks.get(actor) ?? []).filter((each) => every || !isDetail(each)), actor, y, scale, chosen, choose);
    }
  });
  const line = svg("line", { class: "now", x1: 0, x2: 0, y1: 0, y2: height });
  picture.append(line);
  drawing.winds.push((at) => {
    const x = scale(at);
    line.setAttribute("visibility", x >= LABEL ? "visible" : "hidden");
    line.setAttribute("transform", `translate(${x} 0)`);
  });
  const wind = (at) => drawing.winds.forEach((each) => each(at));
  wind(moment);
  return { picture, wind };
}

// A span without a holder is red and striped: the stripes distinguish it for colour-blind readers.
const stripes = () => svg("defs", {}, svg("pattern", { id: "vacant", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  svg("rect", { class: "under", width: 5, height: 5 }), svg("rect", { class: "stripe", width: 3, height: 5 })));

// Lanes for episodes, above all others; a kind without episodes has no lane.
function episodeLanes(told, range) {
  const shown = told.filter((each) => each.from_ms <= range.to_ms && each.to_ms >= range.from_ms);
  const of = (name, belongs) => ({ lane: name, episodes: shown.filter(belongs) });
  return [of("you did", (each) => each.subject === "you"), of("what happened", (each) => ["cluster", ZOOKEEPER, FENCED].includes(each.subject)),
    of("groups", (each) => each.subject.startsWith("group"))].filter((lane) => lane.episodes.length);
}

// A mark as long as its episode. Its text stands after it, or before it if there is more room. The latest episode is placed first.
function episodeRow({ picture, scale, range }, { lane, episodes }, y, choose) {
  picture.append(label(lane, y, 0));
  const marks = episodes.map((each) => {
    const x = Math.max(LABEL, scale(each.from_ms));
    return { x, end: Math.max(x + 4, scale(Math.min(each.to_ms, range.to_ms))) };
  });
  const free = marks.map((_, index) => Math.max(...marks.slice(0, index + 1).map((each) => each.end))); // from here on
  let limit = scale(range.to_ms) + RIGHT;
  for (const [index, each] of [...episodes.entries()].reverse()) {
    const { x, end } = marks[index], words = said(each);
    const after = limit - free[index] - 8, before = x - (free[index - 1] ?? LABEL) - 8;
    const isAfter = after >= Math.min(before, words.length * WORD_WIDTH), room = isAfter ? after : before;
    const shown = room > 45 ? shortened(words, room) : "";
    limit = isAfter ? x : x - 4 - shown.length * WORD_WIDTH;
    picture.append(svg("g", { "data-mark": each.seq, onclick: () => chooseEpisode(each, choose) }, svg("title", {}, `${clock(each.from_ms)} ${words}`),
      svg("rect", { class: `episode-mark${each.subject === "you" ? " yours" : ""}${each.lasts ? " lasts" : ""}`, x, y: y + 3, width: end - x, height: ROW - 5, rx: 2 }),
      svg("text", { x: isAfter ? free[index] + 4 : x - 4, y: y + 13, "text-anchor": isAfter ? "start" : "end" }, shown)));
  }
}

function said({ subject, text }) {
  if (subject === "you") return readable(text.split(". Expect:")[0]);
  return readable(subject === "cluster" || subject === FENCED ? text : `${subject.split(" ").at(-1)}: ${text}`);
}

// Order: controller, brokers, topics, members, partitions by owner, other clients, internal topics. A process has one lane:
// its registration as a bar, its events as marks.
function lanesOf(held, entries, isBuckets) {
  const lanes = new Map();
  const laneOf = (kind, lane) => {
    const name = `${kind} ${lane}`;
    if (!lanes.has(name)) lanes.set(name, { kind, lane, spans: [], actors: new Set() });
    return lanes.get(name);
  };
  for (const [kind, lane, holder, note, from_ms, to_ms] of held.spans) {
    laneOf(kind, lane).spans.push({ holder, note, from_ms, to_ms });
  }
  const members = new Map([...lanes.values()].filter((each) => each.kind === "member")
    .map((each) => [each.lane.slice(each.lane.indexOf(": ") + 2), each]));
  for (const actor of new Set(entries.map((each) => each.actor ?? each[0]))) {
    if (actor === ZOOKEEPER) continue; // has a lane of its own
    const broker = /^(?:broker|controller)-(\d+)$/.exec(actor);
    const lane = broker ? laneOf("broker", `broker ${broker[1]}`) : members.get(actor) ?? lanes.get(`server ${actor}`) ?? laneOf("other", actor);
    lane.actors.add(actor);
  }
  const found = [...lanes.values()].filter((lane) => lane.actors.size || lane.spans.some((span) => span.holder));
  found.sort((a, b) => a.lane.localeCompare(b.lane, undefined, { numeric: true }));
  const kind = (name) => found.filter((lane) => lane.kind === name);
  const groups = (internal, ...kinds) => held.groups
    .filter((group) => kinds.includes(group.kind) && isInternal(group) === internal)
    .flatMap((group) => [{ group }, ...(group.folded ? [] : ofGroup(found, group))]);
  const outages = [...lanes.values()].find((each) => each.kind === "ensemble")?.spans.filter((span) => !span.holder) ?? [];
  const zookeeper = isBuckets && !outages.length ? [] : [{ kind: "zookeeper", lane: ZOOKEEPER, spans: outages, actors: [ZOOKEEPER] }];
  return [...zookeeper, ...kind("server"), ...kind("controller"), ...together("broker", kind("broker")), ...groups(false, "leader"), ...together("member", kind("member")),
    ...groups(false, "owner", "assigned"), ...kind("other"), ...groups(true, "leader", "owner", "assigned")]
    .slice(0, MOST_LANES);
}

// A member that has left is normal; a broker that has left is a problem.
const hasLeft = (span) => !span.holder && span.to_ms === null;

// Many processes share one lane until the reader unfolds it.
function together(kind, lanes) {
  if (lanes.length <= MOST_PROCESSES) return lanes;
  const here = kind === "member" ? lanes.filter((lane) => !lane.spans.some(hasLeft)) : lanes;
  const spans = lanes.flatMap((lane) => lane.spans), silent = spans.filter((span) => !span.holder && (kind !== "member" || !hasLeft(span)));
  const open = isOpen(`${kind} `, false);
  const group = { kind, stem: "", lane_count: here.length, folded: !open, from_ms: Math.min(...spans.map((span) => span.from_ms)), to_ms: null,
    silences: silent.map((span) => [span.from_ms, span.to_ms, 1]) };
  return open ? [{ group }, ...lanes] : [{ group, actors: new Set(lanes.flatMap((lane) => [...lane.actors])) }];
}

const isInternal = (group) => group.stem.slice(group.stem.indexOf(": ") + 1).trim().startsWith("__");
const ofGroup = (lanes, group) => lanes.filter((lane) => lane.kind === group.kind
  && lane.lane.replace(/\d+$/, "") === group.stem).slice(0, MOST_LANES_OF_TOPIC);

function axis(picture, range, scale, width, height) {
  const span = range.to_ms - range.from_ms;
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 300000, 600000, 3600000, 36000000]
    .find((each) => span / each <= (width - LABEL) / TICK) ?? span / 10;
  for (let at = Math.ceil(range.from_ms / step) * step; at <= range.to_ms; at += step) {
    const x = scale(at);
    picture.append(svg("line", { class: "axis", x1: x, x2: x, y1: 12, y2: height }),
      svg("text", { class: "soft", x: Math.min(x, width - TICK / 2), y: 10, "text-anchor": "middle" }, step < 1000 ? clock(at) : clock(at).slice(0, 8)));
  }
}

function label(text, y, indent, whole = text) {
  return svg("text", { x: indent, y: y + 13 }, middle(text, MOST_LABEL - Math.round(indent / 8)), svg("title", {}, whole));
}

// All lanes of a topic in one: red where a leader or owner is missing. Its name folds and unfolds them.
function groupRow(drawing, group, y) {
  const { picture, scale, range, again, samples, winds } = drawing;
  const name = `${group.kind} ${group.stem}`, open = !group.folded;
  const title = TITLES[group.kind](group.stem.replace(/-$/, ""));
  const shown = middle(title, (pointsOf()?.length ? MEASURED_LABEL : MOST_LABEL) - 2); // leaves room for the number
  const press = () => { toggle(name, isOpen(name, open)); again(); };
  picture.append(svg("g", { class: "fold", role: "button", tabindex: 0, "data-key": name, "aria-expanded": String(open),
    "aria-label": `${shown === title ? "" : `${shown}: `}${title}, ${WHOSE[group.kind] ? counted(group.lane_count, group.kind, WHOSE[group.kind]) : counted(group.lane_count, "partition", "partitions")}`, onclick: press,
    onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); press(); } } },
  label(`${open ? "▾" : "▸"} ${shown}`, y, 0, title)));
  measured();
  if (open) return;
  const x = Math.max(LABEL, scale(group.from_ms)), end = scale(Math.min(group.to_ms ?? range.to_ms, range.to_ms));
  if (end > x) picture.append(svg("rect", { class: "many", x, y: y + 3, width: end - x, height: ROW - 6, rx: 2 }));
  for (const [from_ms, to_ms, count] of group.silences) {
    const from = Math.max(LABEL, scale(from_ms)), to = scale(Math.min(to_ms ?? range.to_ms, range.to_ms));
    if (to < LABEL) continue;
    picture.append(svg("rect", { class: "silence", x: from, y: y + 3, width: Math.max(1.5, to - from), height: ROW - 6 },
      svg("title", {}, WHOSE[group.kind] ? `no session from ${clock(from_ms)}` : `${count} of ${group.lane_count} partitions have none from ${clock(from_ms)}`)));
  }
  if (end - x < 200 || WHOSE[group.kind]) return;
  picture.append(svg("text", { class: "soft", x: x + 4, y: y + 13 },
    `${group.lane_count} partitions${drawing.explained ? "" : " in one line; choose the name to unfold"}`));
  drawing.explained = true;

  function pointsOf() {
    return samples.between[`${group.kind === "leader" ? "ends" : "lag"} ${group.stem.replace(/-$/, "")}`];
  }

  function measured() {
    const isTopic = group.kind === "leader", points = pointsOf();
    if (!points?.length) return;
    const known = asked(points, samples, Math.min(range.to_ms, samples.until_ms));
    const drawn = isTopic ? rates(known, samples) : known;
    const line = sparkline(drawn, scale, range, LABEL, y + 1, ROW - 3, isTopic ? "records a second" : "records of lag");
    if (line) picture.append(line);
    const text = svg("text", { x: LABEL - 4, y: y + 13, "text-anchor": "end" });
    picture.append(text);
    winds.push((at) => {
      const now = atMoment(drawn, at);
      text.setAttribute("class", "measure");
      text.textContent = now === null ? "not known" : now === undefined ? "" : isTopic ? `${now.toFixed(now < 10 ? 1 : 0)} records/s` : `lag ${now}`;
    });
  }
}

function laneRow({ picture, scale, range, winds }, lane, y) {
  const thin = lane.kind === "broker" || lane.kind === "member";
  const row = svg("g", { role: "img" });
  winds.push((at) => {
    const now = lane.spans.findLast((span) => span.from_ms <= at && (span.to_ms === null || span.to_ms >= at));
    const whose = lane.kind === "zookeeper" ? now ? `does not serve: ${now.note}` : "all writes" : now ? told(now) : "none yet";
    row.setAttribute("aria-label", `${readable(laneName(lane))}: ${whose}`);
  });
  row.append(label(readable(laneName(lane)), y, /leader|owner|assigned/.test(lane.kind) ? 16 : 0));
  for (const span of lane.spans) {
    const x = Math.max(LABEL, scale(span.from_ms));
    const end = scale(Math.min(span.to_ms ?? range.to_ms, range.to_ms));
    if (end <= LABEL || x > end) continue;
    row.append(svg("rect", { x, y: y + (thin ? 13 : 3), width: Math.max(1.5, end - x), height: thin ? 4 : ROW - 5, rx: 2,
      fill: span.holder ? colour(holderColour(span.holder, lane)) : null, class: span.holder ? "" : "silence" },
    svg("title", {}, told(span))));
    const text = `${readable(lane.kind === "owner" ? span.holder.replace(/-0$/, "") : span.holder)}${lane.kind === "leader" && span.note ? `  ISR ${span.note}` : ""}`;
    if (span.holder && end - x > 40 && !thin) row.append(svg("text", { x: x + 4, y: y + 13, class: "on" }, shortened(text, end - x)));
  }
  picture.append(row);
}

function laneName(lane) {
  if (lane.kind === "member") return `${lane.lane.slice(lane.lane.indexOf(": ") + 2)} (${lane.lane.slice(0, lane.lane.indexOf(": "))})`;
  return /owner|assigned/.test(lane.kind) ? lane.lane.slice(lane.lane.indexOf(": ") + 2) : lane.lane;
}

function told(span) {
  const note = /^[\d,]+$/.test(span.note) ? `, ISR ${span.note}` : span.note ? `, ${span.note}` : "";
  return `${span.holder ? readable(span.holder) : "none"}${note} from ${clock(span.from_ms)}`;
}

function holderColour(holder, lane) {
  if (lane.kind === "broker") return lane.lane;
  if (lane.kind === "member") return lane.lane.slice(lane.lane.indexOf(": ") + 2);
  return lane.kind === "owner" ? holder.replace(/-\d+$/, "") : holder;
}

const shortened = (text, width) => (text.length * WORD_WIDTH > width ? `${text.slice(0, Math.max(1, Math.floor(width / WORD_WIDTH) - 1))}…` : text);

function dots(picture, entries, actor, y, scale, chosen, choose) {
  for (const each of entries) {
    const x = scale(each.time_ms);
    if (x < LABEL) continue;
    const attributes = { "data-seq": each.seq, "data-lane": actor, fill: colour(each.actor.replace(/^controller-/, "broker-")), class: each.seq === chosen ? "ring" : "",
      onclick: () => choose(each.seq) };
    const written = each.zxid && ["created", "changed", "deleted"].includes(each.kind);
    const mark = written ? svg("rect", { ...attributes, x: x - 3.5, y: y + 3, width: 7, height: 7 })
      : each.kind === "WatchFired" ? svg("path", { ...attributes, d: `M${x - 5} ${y + 2}h10l-5 9z` })
        : svg("circle", { ...attributes, cx: x, cy: y + 6.5, r: 4 });
    mark.append(svg("title", {}, `${clock(each.time_ms)} ${readable(each.line)}`));
    picture.append(mark);
  }
}

// One path for each actor: a thousand rectangles would slow down each redraw.
function buckets(picture, entries, actor, y, scale) {
  const most = Math.max(...entries.buckets.map(([, , count]) => count));
  const own = entries.buckets.filter(([name]) => name === actor);
  const bars = own.map(([, from_ms, count]) => {
    const height = 2 + (count / most) * (ROW - 6), x = scale(from_ms);
    const width = Math.max(1, scale(from_ms + entries.width_ms) - x);
    return `M${x.toFixed(1)} ${y + ROW - 3}v${(-height).toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}z`;
  });
  const highest = Math.max(0, ...own.map(([, , count]) => count));
  if (bars.length) picture.append(svg("path", { class: "counts", d: bars.join(""), fill: colour(actor.replace(/^controller-/, "broker-")) },
    svg("title", {}, `${readable(actor)}: at most ${highest} events in ${entries.width_ms} ms`)));
}
