// The samples of an exported page: numbers over time, as kafka_zk/recorder/recording/samples.py answers.

import { lastUntil } from "./replayed.js";

// `samples`: {series: [[time_ms, value or null], …]}, each in ascending order; `summed`: the series to draw; `asking`: constants of the
// questions to brokers.
export class ExportedSamples {
  constructor({ samples, summed, asking }) {
    this.rows = new Map(Object.entries(samples));
    Object.assign(this, { summed, asking });
    this.times = new Map([...this.rows].map(([name, points]) => [name, points.map(([time_ms]) => time_ms)]));
  }

  last(name, time_ms) {
    return this.rows.has(name) ? this.rows.get(name)[lastUntil(this.times.get(name), time_ms)] ?? null : null;
  }

  // The values of these series at a moment, without those that have none.
  values(names, time_ms) {
    const found = [...names].map((name) => [name, this.last(name, time_ms)?.[1] ?? null]);
    return Object.fromEntries(found.filter(([, value]) => value !== null));
  }

  beginningWith(beginning) { return [...this.rows.keys()].filter((name) => name.startsWith(beginning)); }

  // When brokers were last asked, and the age of the oldest answer.
  asked(time_ms) {
    const last = this.last("sampled", time_ms);
    if (last === null) return { sampled_ms: null, turns: 1, age_ms: null };
    const turns = this.last("turns", time_ms)?.[1] || 1, pause_ms = time_ms - last[0];
    return { sampled_ms: last[0], turns, age_ms: pause_ms <= this.asking.pause_ms ? pause_ms + (turns - 1) * this.asking.round_ms : null };
  }

  sums(from_ms, to_ms) {
    return { ...this.asked(to_ms), between: Object.fromEntries(this.summed.map((name) => [name, this.between(name, from_ms, to_ms)])) };
  }

  // The value at `from_ms` and later ones, the last of each part of the interval.
  between(name, from_ms, to_ms) {
    const width = Math.max(1, Math.floor((to_ms - from_ms) / this.asking.most_points)), first = this.last(name, from_ms);
    const parts = new Map();
    for (const point of this.rows.get(name)) if (point[0] > from_ms && point[0] <= to_ms) parts.set(Math.floor((point[0] - from_ms) / width), point);
    return [...(first ? [first] : []), ...parts.values()];
  }
}
