// Throughput of a topic, lag of a group, as a small line in the timeline; grey where no broker answered. How long a partition
// had no leader is not shown here: that comes from ZooKeeper, not from questions.

import { clock, svg } from "./dom.js";

const ROUND_MS = 1000, LATE_MS = 1500, PAUSE_MS = 5000;

// The samples, cut off where brokers were no longer asked: an old value says nothing about later times.
export function asked(points, { sampled_ms: sampledMs }, toMs) {
  return sampledMs !== null && toMs - sampledMs > PAUSE_MS ? [...points, [sampledMs + LATE_MS, null]] : points;
}

// Records a second between samples: [time, value or null]. Values change once in all `turns`.
export function rates(points, { sampled_ms: sampledMs, turns }) {
  const found = [];
  for (let index = 1; index < points.length; index += 1) {
    const [from, before] = points[index - 1], [at, after] = points[index];
    const known = before !== null && after !== null;
    found.push([at, known ? Math.max(0, ((after - before) * 1000) / Math.max(ROUND_MS, at - from)) : null]);
  }
  const last = points.at(-1);
  if (last && sampledMs - last[0] > turns * ROUND_MS + LATE_MS) found.push([last[0] + LATE_MS, last[1] === null ? null : 0]); // nothing came any more
  return found;
}

export function atMoment(points, moment) {
  return points.findLast(([time_ms]) => time_ms <= moment)?.[1];
}

export function sparkline(points, scale, range, left, y, height, unit) {
  const shown = points.filter(([time_ms]) => time_ms <= range.to_ms);
  if (!shown.length) return null;
  const most = Math.max(1, ...shown.map(([, value]) => value ?? 0));
  const x = (ms) => Math.max(left, scale(ms));
  const level = (value) => y + height - (value / most) * (height - 2);
  const line = [], unknown = [];
  let drawn = false;
  shown.forEach(([time_ms, value], index) => {
    const end = x(shown[index + 1]?.[0] ?? range.to_ms);
    if (value === null) unknown.push([x(time_ms), end]);
    else line.push(`${drawn ? "L" : "M"}${x(time_ms)} ${level(value)}H${end}`);
    drawn = value !== null;
  });
  return svg("g", { class: "sparkline" }, svg("title", {}, `${unit}, at most ${Math.round(most)}, since ${clock(shown[0][0])}`),
    svg("path", { d: line.join(""), fill: "none" }),
    unknown.map(([from, to]) => svg("rect", { class: "unknown", x: from, y: y + height - 3, width: Math.max(1.5, to - from), height: 3 })));
}
