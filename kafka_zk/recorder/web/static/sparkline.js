// Throughput of a topic, lag of a group, as a small line in the timeline; red where no broker answered.

import { clock, svg } from "./dom.js";

// Records a second between samples: [time, value or null].
export function rates(samples, to_ms) {
  const found = [];
  for (let index = 1; index < samples.length; index += 1) {
    const [from, before] = samples[index - 1], [at, after] = samples[index];
    const known = before !== null && after !== null;
    found.push([at, known ? Math.max(0, ((after - before) * 1000) / Math.max(1000, at - from)) : null]);
  }
  const last = samples.at(-1);
  if (last && to_ms - last[0] > 2500) found.push([last[0] + 1500, last[1] === null ? null : 0]); // nothing came any more
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
  const line = [], silences = [];
  let drawn = false;
  shown.forEach(([time_ms, value], index) => {
    const end = x(shown[index + 1]?.[0] ?? range.to_ms);
    if (value === null) silences.push([x(time_ms), end]);
    else line.push(`${drawn ? "L" : "M"}${x(time_ms)} ${level(value)}H${end}`);
    drawn = value !== null;
  });
  return svg("g", { class: "sparkline" }, svg("title", {}, `${unit}, at most ${Math.round(most)}, since ${clock(shown[0][0])}`),
    svg("path", { d: line.join(""), fill: "none" }),
    silences.map(([from, to]) => svg("rect", { class: "silence", x: from, y: y + height - 3, width: Math.max(1.5, to - from), height: 3 })));
}
