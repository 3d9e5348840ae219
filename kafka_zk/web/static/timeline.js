// Lanes by time: who held what, where nobody did, and what each process and ZooKeeper did.

import { clock, colour, svg } from "./dom.js";

const ROW = 20, LABEL = 190, TOP = 18;
const KINDS = ["controller", "broker", "member", "owner", "leader", "other"];
const DETAILS = new Set(["WatchArmed", "PartitionsMoved", "ReplicasMoved"]);
const MOST_LANES = 60;

export function timelinePicture(width, range, spans, entries, moment, chosen, every, choose) {
  const scale = (ms) => LABEL + ((ms - range.from_ms) / Math.max(1, range.to_ms - range.from_ms)) * (width - LABEL - 10);
  const lanes = lanesOf(spans, entries);
  const height = TOP + lanes.length * ROW + 8;
  const picture = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height,
    role: "img", "aria-label": "who held what, and what happened, by time" });
  axis(picture, range, scale, height);
  picture.append(svg("text", { class: "soft", x: 0, y: 10 }, "■ write  ▼ watch  ● event", svg("title", {},
    "A square is a write to ZooKeeper, a triangle a watch that fired, a dot what a process told; red is nobody.")));
  lanes.forEach((lane, index) => {
    const y = TOP + index * ROW;
    laneRow(picture, lane, y, scale, range);
    if (entries.buckets) buckets(picture, entries, lane.actors, y, scale);
    else dots(picture, entries.entries.filter((each) => lane.actors.has(each.actor) && (every || !DETAILS.has(each.kind))),
      y, scale, chosen, choose);
  });
  const x = scale(moment);
  if (x >= LABEL) picture.append(svg("line", { class: "now", x1: x, x2: x, y1: 0, y2: height }));
  return picture;
}

// A process has one lane: its registration as a bar, what it did as marks. The controller is a broker in its office.
function lanesOf(spans, entries) {
  const lanes = new Map();
  const laneOf = (kind, lane) => {
    const name = `${kind} ${lane}`;
    if (!lanes.has(name)) lanes.set(name, { kind, lane, spans: [], actors: new Set() });
    return lanes.get(name);
  };
  for (const [kind, lane, holder, note, from_ms, to_ms] of spans) {
    laneOf(kind, lane).spans.push({ holder, note, from_ms, to_ms });
  }
  const members = new Map([...lanes.values()].filter((each) => each.kind === "member")
    .map((each) => [each.lane.slice(each.lane.indexOf(": ") + 2), each]));
  for (const actor of new Set((entries.buckets ?? entries.entries).map((each) => each.actor ?? each[0]))) {
    const broker = /^(?:broker|controller)-(\d+)$/.exec(actor);
    const lane = broker ? laneOf("broker", `broker ${broker[1]}`) : members.get(actor) ?? laneOf("other", actor);
    lane.actors.add(actor);
  }
  const found = [...lanes.values()].filter((lane) => lane.actors.size || lane.spans.some((span) => span.holder));
  found.sort((a, b) => internal(a) - internal(b) || KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind)
    || a.lane.localeCompare(b.lane, undefined, { numeric: true }));
  return found.slice(0, MOST_LANES);
}

// What somebody made comes before Kafka's own topics and clients that only asked something.
const internal = (lane) => Number(lane.kind === "other" || (lane.kind === "leader" && lane.lane.startsWith("__")));

function axis(picture, range, scale, height) {
  const span = range.to_ms - range.from_ms;
  const step = [100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 300000, 600000, 3600000, 36000000]
    .find((each) => span / each <= 12) ?? span / 10;
  for (let at = Math.ceil(range.from_ms / step) * step; at <= range.to_ms; at += step) {
    const x = scale(at);
    picture.append(svg("line", { class: "axis", x1: x, x2: x, y1: 12, y2: height }),
      svg("text", { class: "soft", x, y: 10, "text-anchor": "middle" }, step < 1000 ? clock(at) : clock(at).slice(0, 8)));
  }
}

function label(picture, text, y) {
  const shown = text.length > 26 ? `…${text.slice(-25)}` : text;
  picture.append(svg("text", { x: 0, y: y + 14 }, shown, svg("title", {}, text)));
}

function laneRow(picture, lane, y, scale, range) {
  const suffix = { leader: " leader", owner: " owner" }[lane.kind] ?? "";
  label(picture, lane.lane + suffix, y);
  const thin = lane.kind === "broker" || lane.kind === "member";
  for (const span of lane.spans) {
    const x = Math.max(LABEL, scale(span.from_ms));
    const end = scale(Math.min(span.to_ms ?? range.to_ms, range.to_ms));
    if (end <= LABEL || x > end) continue;
    const told = `${span.holder || "nobody"}${span.note ? `, ISR ${span.note}` : ""} from ${clock(span.from_ms)}`;
    picture.append(svg("rect", { x, y: y + (thin ? 14 : 3),
      width: Math.max(1.5, end - x), height: thin ? 4 : ROW - 6, rx: 2,
      fill: span.holder ? colour(holderColour(span.holder, lane)) : null, class: span.holder ? "" : "silence" },
    svg("title", {}, told)));
    if (span.holder && end - x > 70 && !thin) {
      const text = svg("text", { x: x + 4, y: y + 14 }, shortened(`${span.holder}${span.note ? `  ISR ${span.note}` : ""}`, end - x));
      text.style.fill = "#000";
      picture.append(text);
    }
  }
}

function holderColour(holder, lane) {
  if (lane.kind === "broker") return lane.lane;
  if (lane.kind === "member") return lane.lane.slice(lane.lane.indexOf(": ") + 2);
  return lane.kind === "owner" ? holder.replace(/-\d+$/, "") : holder;
}

const shortened = (text, width) => (text.length * 7.5 > width ? `${text.slice(0, Math.max(1, Math.floor(width / 7.5) - 1))}…` : text);

function dots(picture, entries, y, scale, chosen, choose) {
  for (const each of entries) {
    const x = scale(each.time_ms);
    if (x < LABEL) continue;
    const attributes = { "data-seq": each.seq, fill: colour(each.actor.replace(/^controller-/, "broker-")), class: each.seq === chosen ? "ring" : "",
      onclick: () => choose(each.seq) };
    const written = each.zxid && ["created", "changed", "deleted"].includes(each.kind);
    const mark = written ? svg("rect", { ...attributes, x: x - 3.5, y: y + 4, width: 7, height: 7 })
      : each.kind === "WatchFired" ? svg("path", { ...attributes, d: `M${x - 5} ${y + 3}h10l-5 9z` })
        : svg("circle", { ...attributes, cx: x, cy: y + 7.5, r: 4 });
    mark.append(svg("title", {}, `${clock(each.time_ms)} ${each.line}`));
    picture.append(mark);
  }
}

function buckets(picture, entries, actors, y, scale) {
  const most = Math.max(...entries.buckets.map(([, , count]) => count));
  for (const [name, from_ms, count] of entries.buckets) {
    if (!actors.has(name)) continue;
    const height = 2 + (count / most) * (ROW - 6);
    const x = scale(from_ms);
    picture.append(svg("rect", { x, y: y + ROW - 3 - height, width: Math.max(1, scale(from_ms + entries.width_ms) - x),
      height, fill: colour(name) }, svg("title", {}, `${count} events`)));
  }
}
