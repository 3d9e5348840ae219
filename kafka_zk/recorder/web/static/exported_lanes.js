// The lanes of an interval, cut from the spans of an exported page as kafka_zk/recorder/web/lanes.py does.

const BY_PARTITION = new Set(["leader", "owner", "assigned"]), MOST_UNASKED = 12, MOST_GROUPS = 300;
const KIND = 0, LANE = 1, HOLDER = 2, FROM = 4, TO = 5; // of a span: [kind, lane, holder, note, from_ms, to_ms]

// `spans` in the order of kind, lane and begin; `places`: their order of arrival. `opened`, `closed`: names of groups.
export function lanesBetween(spans, places, from_ms, to_ms, opened, closed) {
  const overlapping = spans.map((span, index) => ({ span, place: places[index] })).filter(({ span }) => span[FROM] <= to_ms && ends(span) >= from_ms);
  const single = overlapping.map(({ span }) => span).filter((span) => !BY_PARTITION.has(span[KIND]));
  const brokers = single.filter((span) => span[KIND] === "broker"), outage = brokers.some((span) => !span[HOLDER]);
  const shown = [...single], groups = [];
  for (const own of groupsOf(overlapping)) {
    const held = own.map(({ span }) => span), group = described(held), folded = isFolded(group, opened, closed);
    const found = outage ? withOutages(held, brokers) : held;
    groups.push({ ...group, folded, silences: folded ? silences(found.filter((span) => !span[HOLDER])) : [] });
    if (!folded) shown.push(...found);
  }
  return { spans: shown, groups };
}

const ends = (span) => span[TO] ?? Infinity;
const stemOf = (span) => span[LANE].replace(/[0-9]+$/, "");

// By topic, in the order of arrival; those that had a holder.
function groupsOf(overlapping) {
  const found = Map.groupBy(overlapping.filter(({ span }) => BY_PARTITION.has(span[KIND])), ({ span }) => `${span[KIND]}\n${stemOf(span)}`);
  const first = (own) => own.reduce((least, { place }) => Math.min(least, place), Infinity);
  return [...found.values()].filter((own) => own.some(({ span }) => span[HOLDER])).sort((a, b) => first(a) - first(b)).slice(0, MOST_GROUPS);
}

function described(held) {
  const last = held.reduce((most, span) => Math.max(most, ends(span)), -Infinity);
  return { kind: held[0][KIND], stem: stemOf(held[0]), lane_count: new Set(held.map((span) => span[LANE])).size,
    from_ms: held.reduce((least, span) => Math.min(least, span[FROM]), Infinity), to_ms: last === Infinity ? null : last };
}

function isFolded(group, opened, closed) {
  const name = `${group.kind} ${group.stem}`, topic = group.stem.slice(group.stem.lastIndexOf(": ") + (group.stem.includes(": ") ? 2 : 1));
  return closed.has(name) || ((group.lane_count > MOST_UNASKED || topic.startsWith("__")) && !opened.has(name));
}

// A leader without a session is none.
function withOutages(held, brokers) {
  const gone = Map.groupBy(brokers.filter((span) => !span[HOLDER]), (span) => span[LANE]);
  return held.flatMap((span) => (span[KIND] === "leader" ? cut(span, gone.get(span[HOLDER]) ?? []) : [span]));
}

function cut(span, outages) {
  const [kind, lane, holder, note, begin] = span, found = [], last = ends(span);
  let from = begin;
  for (const outage of outages) {
    const since = Math.max(outage[FROM], from), until = Math.min(ends(outage), last);
    if (since >= until) continue;
    if (since > from) found.push([kind, lane, holder, note, from, since]);
    found.push([kind, lane, "", "", since, until === Infinity ? null : until]);
    from = until;
  }
  if (from < last) found.push([kind, lane, holder, note, from, span[TO]]);
  return found;
}

// [from_ms, to_ms, count of lanes without a holder]
function silences(vacant) {
  const changes = new Map(), add = (at, by) => changes.set(at, (changes.get(at) ?? 0) + by);
  for (const span of vacant) {
    add(span[FROM], 1);
    if (span[TO] !== null) add(span[TO], -1);
  }
  const times = [...changes.keys()].sort((a, b) => a - b), found = [];
  let count = 0;
  for (const [index, at] of times.slice(0, -1).entries()) {
    count += changes.get(at);
    if (count) found.push([at, times[index + 1], count]);
  }
  const lasting = vacant.filter((span) => span[TO] === null).length;
  if (lasting) found.push([times.at(-1), null, lasting]);
  return found;
}
