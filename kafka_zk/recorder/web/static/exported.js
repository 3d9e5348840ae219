// The data of an exported page: what kafka-zk has computed for each moment, as patches, and rows from which any interval is cut.

import { ExportedSamples } from "./exported_samples.js";
import { lastUntil, Replayed } from "./replayed.js";

const LANE = 1, HOLDER = 2, FROM = 4; // of a span: [kind, lane, holder, note, from_ms, to_ms]
const MOST_CHANGES = 10, CHANGES = new Set(["created", "changed", "deleted"]);

// `packed`: the data (kafka_zk/recorder/page_export/page_data.py) as JSON, compressed, in base64.
export function exported(packed) {
  const ready = unpacked(packed).then((data) => new ExportedAnswers(data));
  const ask = async (question, values = {}) => (await ready).answer(question, values);
  addEventListener("hashchange", () => location.reload()); // another moment's address
  return { ask, post: null, present: null, askPrivately: null, hasLag: false, kept: {}, missing: "", savingAddress: () => null, codeAddress: () => null,
    follow: (onNews, onSilence) => ask("recording").then(onNews, (error) => onSilence(`This page cannot be read: ${error.message ?? error}`)) };
}

async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed.trim()), (each) => each.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

class ExportedAnswers {
  constructor(data) {
    Object.assign(this, { data, entries: data.entries, first: data.first, count: data.first + data.entries.length - 1 });
    this.byTime = this.entries.toSorted((a, b) => a.time_ms - b.time_ms || a.seq - b.seq);
    this.samples = new ExportedSamples(data);
    for (const name of ["states", "trees", "health", "records", "batches"]) this[name] = new Replayed(data[name]);
  }

  answer(question, values) {
    const { data } = this, seq = Number(values.seq), from_ms = Number(values.from_ms), to_ms = Number(values.to_ms);
    switch (question) {
      case "recording": case "episodes": case "lesson": case "strategies": return data[question];
      case "play": return this.play(values);
      case "question": return data.questions[Number(values.step)];
      case "step": return this.entry(Math.max(this.first, Math.min(this.count, seq + (String(values.by) === "-1" ? -1 : 1))));
      case "at": return { seq: data.at[lastUntil(data.at.map(([time_ms]) => time_ms), Number(values.time_ms))]?.[1] ?? this.first };
      case "entries": return this.between(from_ms, to_ms);
      case "entry": return this.details(seq);
      case "state": return this.state(this.whole(seq), Number(values.time_ms), names(values.open), values.name ?? "");
      case "records": return { seq: this.whole(seq), plays: this.records.at(this.whole(seq)) };
      case "tree": return this.tree(this.whole(seq), values.path ?? "", values.name ?? "");
      case "znode": return this.znode(this.whole(seq), values.path);
      case "health": return this.health.at(Number(values.time_ms));
      case "spans": return this.lanes(from_ms, to_ms, names(values.open), names(values.close));
      case "samples": return this.samples.sums(from_ms, to_ms);
      default: throw new Error(`this page has no answer to ${question}`);
    }
  }

  play({ subject, seq, from_ms, to_ms }) {
    const found = this.data.plays[`${subject} ${seq} ${from_ms} ${to_ms}`];
    if (!found) throw new Error("this page has no play of that");
    return found;
  }

  entry(seq) {
    const found = this.entries[seq - this.first];
    if (!found) throw new Error(`there is no entry ${seq}`);
    return found;
  }

  // The last entry of its transaction.
  whole(seq) { return this.data.wholes[Math.max(this.first, Math.min(this.count, seq)) - this.first]; }

  between(from_ms, to_ms) {
    const entries = this.byTime.filter((each) => each.time_ms >= from_ms && each.time_ms <= to_ms);
    return { count: entries.length, entries };
  }

  details(seq) {
    const entry = this.entry(seq), { title, document, why, reason, effects } = this.data.details[seq - this.first];
    const short = (seqs) => seqs.map((each) => this.entry(each));
    return { ...entry, title, document, why: short(why), reason, effects: short(effects), explanation: this.data.explanations[entry.kind] ?? null };
  }

  // Topics that the reader has not unfolded have no partitions, as in `cluster_view.py`.
  state(seq, time_ms, opened, name) {
    const { cluster, listed, grouped } = this.states.at(seq), unfolded = new Set([...listed, ...opened]);
    const topics = cluster.topics.map((topic) => (unfolded.has(topic.name) ? topic : { ...topic, partitions: [] }));
    const ends = topics.flatMap((topic) => topic.partitions.map((each) => `end ${topic.name}-${each.partition}`));
    const { age_ms } = this.samples.asked(time_ms), heard = this.samples.values(this.samples.beginningWith("heard "), time_ms);
    const shown = age_ms === null ? {} : this.samples.values([...ends, ...grouped], time_ms);
    return { seq, cluster: { ...cluster, topics }, measured: { ...heard, ...shown }, age_ms, batches: age_ms === null ? [] : this.batchesOf(time_ms, name, new Set(ends)) };
  }

  // Only for the partitions that are shown without a filter; `ends` has those of the requested entry.
  batchesOf(time_ms, name, ends) {
    const isShown = (each) => each.name.includes(name) && ends.has(`end ${each.name}`);
    return (this.batches.at(time_ms) ?? []).map((play) => ({ ...play, partitions: play.partitions.filter(isShown) }))
      .filter((play) => play.partitions.length);
  }

  // The spans of an interval, and the groups of which one had a holder then.
  lanes(from_ms, to_ms, opened, closed) {
    const isThen = ([begin, end]) => begin <= to_ms && (end === null || end >= from_ms), then = (spans) => spans.filter((span) => isThen(span.slice(FROM)));
    const spans = then(this.data.single), groups = [];
    for (const { spans: all, ...group } of this.data.groups) {
      const own = then(all), name = `${group.kind} ${group.stem}`;
      if (!own.some((span) => span[HOLDER])) continue;
      const folded = closed.has(name) || (group.folded && !opened.has(name));
      groups.push({ ...group, lane_count: new Set(own.map((span) => span[LANE])).size, folded, silences: folded ? group.silences.filter(isThen) : [] });
      if (!folded) spans.push(...own);
    }
    return { spans, groups };
  }

  tree(seq, parent, name) {
    const rows = this.trees.at(seq), found = rows.filter((row) => row.path.includes(name));
    return { seq, count: rows.length, found: found.length, whole: true, parent, znodes: found };
  }

  znode(seq, path) {
    const row = this.trees.at(seq).find((each) => each.path === path);
    const changes = this.entries.filter((each) => each.path === path && each.seq <= seq && CHANGES.has(each.kind)).slice(-MOST_CHANGES).reverse();
    if (!row && !changes.length) throw new Error(`there is no znode '${path.slice(0, 200)}' then`);
    const last = changes.length ? this.data.details[changes[0].seq - this.first].document : null;
    return { path, znode: row?.znode ?? null, actor: row?.actor ?? "", watchers: row?.watchers ?? this.watchersOf(seq, path), last, changes };
  }

  // Also znodes that do not exist are watched.
  watchersOf(seq, path) { return this.states.at(seq).watched[path] ?? []; }
}

const names = (lines) => new Set((lines ?? "").split("\n").filter(Boolean));
