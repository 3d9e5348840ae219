"""The page's queries to a recording. The only I/O is the recording's."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_zk.recorder.recording.documents import Document, znode_document
from kafka_zk.recorder.recording.entries import CHANGES, Bucket, Entry
from kafka_zk.recorder.recording.export import export
from kafka_zk.recorder.recording.holds import OF_ZOOKEEPER
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web import verdicts
from kafka_zk.recorder.web.client_view import clients_document
from kafka_zk.recorder.web.cluster_view import cluster_document, series_of
from kafka_zk.recorder.web.episodes import Episode, GroupStep, episodes
from kafka_zk.recorder.web.explanations import explanation
from kafka_zk.recorder.web.fenced_writes import FENCED, FencedWrites, fenced_writes
from kafka_zk.recorder.web.lag_table import lag_table
from kafka_zk.recorder.web.lanes import is_folded, silences, with_outages
from kafka_zk.recorder.web.lesson_steps import KEY, Lesson, decode, question, step_document
from kafka_zk.recorder.web.narration import line, title
from kafka_zk.recorder.web.plays import episode_play, fenced_play
from kafka_zk.recorder.web.reasons import reason
from kafka_zk.recorder.web.record_plays import record_plays, sampled_records
from kafka_zk.recorder.web.turns import SAMPLED, TURNS
from kafka_zk.recorder.web.zookeeper_episodes import zookeeper_episodes
from kafka_zk.recorder.web.zookeeper_view import MOST_SERVERS, NUMBERS, zookeeper_document

MOST_ENTRIES = 5_000
MOST_SPANS = 20_000
MOST_ZNODES = 3_000
MOST_LINKS = 60
MOST_LIKELY = 2
"""Maximum number of likely, not certain, links in a chain of causes: each makes all later links less likely."""
MOST_MOVES = 5_000
MOST_EPISODES = 100
LONGEST_COUNTED_MS = 600_000
MOST_DATA = 20_000
"""Maximum number of characters of a znode's data that are sent."""
BUCKETS = 400
ASSIGNED = "AssignmentCompleted"
MOST_LANE_GROUPS = 300
MOST_CHANGES = 10
MOST_SERIES = 2_000
MOST_ROWS = 300
"""Maximum number of a group's partitions that are shown with offsets."""
SAMPLING_PAUSE_MS = 5_000
"""After a longer pause, the earlier samples are too old to describe the present."""
MOST_SUMS = 100
MOST_POINTS = 300
INTERVAL_S = 1.0
"""Time between two rounds of questions to brokers, as in ``sampler``."""
_SESSION_IDS = ("session", "session_id")
_WHOLE = re.compile(r"-?[0-9]{1,18}")


class BadRequest(Exception):
    """``str()`` gives the reason."""


Query = Mapping[str, str]


class RecordingApi:
    """The values of queries are unchecked strings. Raises: BadRequest."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._counted: tuple[tuple[int, int, int], list[Bucket]] = ((0, 0, 0), [])  # key and result of the last query
        self.one_moment = recording.one_moment
        """A context for a query, see ``Recording``."""

    def state(self, query: Query) -> Document:
        """The cluster after entry ``seq`` and the rest of its transaction.

        ``measured``: the values of its shown partitions at ``time_ms`` (default: the entry's time), none of which is
        older than ``age_ms`` (None: brokers were not asked then). ``batches``: records between two samples, of
        partitions with ``name`` in their name.
        """
        seq = self._recording.entries.whole(self._seq(query))
        document = cluster_document(self._recording.znodes.after(seq).znodes, _several(query, "open"))
        brokers = {f"broker-{each['id']}" for each in document["brokers"]}
        clients = clients_document(self._recording.entries, seq, brokers)
        cluster = {**document, "coordinated": self._coordinated(seq), "clients": clients}
        at = self._recording.entries.entry(seq)
        time_ms = _number(query, "time_ms") if "time_ms" in query else at.time_ms if at is not None else 0
        measured = self._measured(cluster, time_ms)
        is_asked = measured["age_ms"] is not None
        name = query.get("name", "")
        batches = sampled_records(self._recording, cluster, seq, time_ms, name) if is_asked else []
        return {"seq": seq, "cluster": cluster, **measured, "batches": batches}

    def _measured(self, cluster: Document, time_ms: int) -> Document:
        samples = self._recording.samples
        heard = samples.at(time_ms, ("heard ",), MOST_SERIES)
        age_ms = self._sampled(time_ms)["age_ms"]
        shown = samples.values(time_ms, series_of(cluster, MOST_ROWS)) if age_ms is not None else {}
        return {"measured": {**heard, **shown}, "age_ms": age_ms}

    def _sampled(self, time_ms: int) -> Document:
        """When brokers were last asked before a moment, and the age of the oldest answer."""
        last, turns = (self._recording.samples.last(name, time_ms) for name in (SAMPLED, TURNS))
        if last is None:
            return {"sampled_ms": None, "turns": 1, "age_ms": None}
        count = (turns.value if turns is not None else None) or 1
        pause_ms = time_ms - last.time_ms
        age_ms = pause_ms + (count - 1) * int(INTERVAL_S * 1000)
        return {"sampled_ms": last.time_ms, "turns": count, "age_ms": age_ms if pause_ms <= SAMPLING_PAUSE_MS else None}

    def tree(self, query: Query) -> Document:
        """The znodes after entry ``seq``. If there are too many: those with ``name`` in their path; without ``name``,
        the children of ``path``, each with its number of descendants. ``found``: number of matches, of which at most
        MOST_ZNODES are sent.
        """
        seq = self._recording.entries.whole(self._seq(query))
        znodes = self._recording.znodes.after(seq).znodes
        whole = len(znodes) <= MOST_ZNODES
        parent, name = query.get("path", ""), query.get("name", "")
        counts = dict.fromkeys(znodes, 0) if whole or name else _below(znodes, parent)
        found = sorted((path for path in counts if name in path), key=lambda path: path.split("/"))
        watchers = self._recording.entries.watchers(seq)
        rows = [
            {
                "path": path,
                "znode": _cut(znode_document(znodes.get(path))),
                "actor": self._recording.sessions.owner(znodes[path].session) if path in znodes else "",
                "watchers": watchers.get(path, []),
                "below": counts[path],
            }
            for path in found[:MOST_ZNODES]
        ]
        told = {"seq": seq, "count": len(znodes), "found": len(found), "whole": whole, "parent": parent}
        return {**told, "znodes": rows}

    def znode(self, query: Query) -> Document:
        """Content, watchers and earlier changes."""
        seq, path = self._recording.entries.whole(self._seq(query)), query.get("path", "")
        changes = self._recording.entries.changes_of(path, seq, MOST_CHANGES)
        znode = self._recording.znodes.after(seq).znodes.get(path)
        if znode is None and not changes:
            raise BadRequest(f"there is no znode {path[:200]!r} then")
        last = next(iter(changes), None)
        return {
            "path": path,
            "znode": _cut(znode_document(znode)),
            "actor": self._recording.sessions.owner(znode.session) if znode is not None else "",
            "watchers": self._recording.entries.watchers(seq).get(path, []),
            "last": None if last is None else _shown_document(last),
            "changes": [_short(each) for each in changes],
        }

    def entries(self, query: Query) -> Document:
        """The entries of an interval, or their counts if there are too many to draw."""
        from_ms, to_ms = _number(query, "from_ms"), _number(query, "to_ms")
        count = self._recording.entries.count_between(from_ms, to_ms)
        if count > MOST_ENTRIES:
            width_ms = max(1, (to_ms - from_ms) // BUCKETS)
            if self._counted[0] != (from_ms, to_ms, count):
                self._counted = (from_ms, to_ms, count), self._recording.entries.density(from_ms, to_ms, width_ms)
            return {"count": count, "width_ms": width_ms, "buckets": self._counted[1]}
        found = self._recording.entries.between(from_ms, to_ms, MOST_ENTRIES)
        return {"count": count, "entries": [_short(entry) for entry in found]}

    def spans(self, query: Query) -> Document:
        """Topics with many partitions are folded to the spans without a holder.

        ``open`` and ``close`` name groups of lanes, such as ``leader flights-``, to unfold or fold.
        """
        from_ms, to_ms = _number(query, "from_ms"), _number(query, "to_ms")
        opened, closed = _several(query, "open"), _several(query, "close")
        spans = self._recording.spans.single(from_ms, to_ms, MOST_SPANS)
        brokers = [each for each in spans if each.kind == "broker"]
        outage = any(not each.holder for each in brokers)
        groups = []
        for group in self._recording.spans.groups(from_ms, to_ms, MOST_LANE_GROUPS):
            folded = is_folded(group, opened, closed)
            room = max(0, MOST_SPANS - len(spans))
            all_needed = not folded or (outage and group.kind == "leader")
            held = self._recording.spans.of_group(group, from_ms, to_ms, room, unheld=not all_needed)
            found = with_outages(held, brokers) if outage else held
            silent = silences((each.from_ms, each.to_ms) for each in found if not each.holder) if folded else []
            groups.append({**group._asdict(), "folded": folded, "silences": silent})
            spans += () if folded else found
        return {"spans": [list(span) for span in spans], "groups": groups}

    def episodes(self, query: Query) -> Document:
        """Failovers, rebalances, fenced writes and operator acts in an interval. ``seq``: the first entry."""
        from_ms, to_ms = _number(query, "from_ms"), _number(query, "to_ms")
        steps = [_group_step(each) for each in self._recording.entries.group_steps(from_ms, to_ms, MOST_MOVES)]
        moves = self._recording.spans.moves(from_ms, to_ms, MOST_MOVES)
        found = [*episodes(moves, steps, to_ms), *zookeeper_episodes(moves, to_ms)]
        found.sort(key=lambda each: each.from_ms)
        told = [_act(each) for each in self._recording.entries.operator_acts(from_ms, to_ms, MOST_EPISODES)]
        refusals = self._recording.entries.fenced(from_ms, to_ms, MOST_MOVES)
        fenced = fenced_writes(refusals)
        count = len(told) + len(fenced) + len(found)
        told += [_fenced(each) for each in fenced[-MOST_EPISODES:]]
        told += [self._priced(each) for each in found[-MOST_EPISODES:]]
        told.sort(key=lambda each: int(each["from_ms"]))
        return {"count": count, "episodes": told[-MOST_EPISODES:]}

    def play(self, query: Query) -> Document:
        """The steps of one of the ``episodes`` in slow motion, with its ``subject``, ``seq`` and times."""
        first = self._recording.entries.entry(_number(query, "seq"))
        from_ms, to_ms, subject = _number(query, "from_ms"), _number(query, "to_ms"), query.get("subject", "")
        if subject == FENCED and first is not None:
            found = fenced_play(self._recording, first, to_ms, self._chain)
        else:
            found = episode_play(self._recording, subject, from_ms, to_ms, self._chain)
        return {**found._asdict(), "steps": [each._asdict() for each in found.steps]}

    def samples(self, query: Query) -> Document:
        """The sums of topics' high watermarks and groups' lags over an interval, and when brokers were last asked."""
        from_ms, to_ms = _number(query, "from_ms"), _number(query, "to_ms")
        samples = self._recording.samples
        sums = [*samples.names("ends ", MOST_SUMS), *samples.names("lag ", MOST_SUMS)]
        return {
            **self._sampled(to_ms),
            "between": {name: samples.between(name, from_ms, to_ms, MOST_POINTS) for name in sums},
        }

    def lag(self, query: Query) -> Document:
        """The lag of groups at ``time_ms``, and when brokers were last asked; only what has ``name`` in its name."""
        time_ms = _number(query, "time_ms")
        return {**self._sampled(time_ms), **lag_table(self._recording.samples, time_ms, query.get("name", ""))}

    def health(self, query: Query) -> Document:
        """ZooKeeper's own health at ``time_ms``."""
        time_ms = _number(query, "time_ms")
        servers = self._recording.spans.at(OF_ZOOKEEPER, time_ms, MOST_SERVERS)
        measured = self._recording.samples.at(time_ms, [NUMBERS], MOST_SERIES)
        return {"zookeeper": zookeeper_document(servers, measured)}

    def lesson(self, query: Query) -> Document:
        """The recording's lesson; empty if it has no lesson."""
        lesson = self._lesson()
        return {**lesson._asdict(), "steps": [step_document(each) for each in lesson.steps]}

    def records(self, query: Query) -> Document:
        """The state of single records after entry ``seq``; ``plays`` is empty if no process reports records."""
        seq = self._recording.entries.whole(self._seq(query))
        return {"seq": seq, "plays": record_plays(self._recording, self._lesson().steps, self._verdicts(), seq)}

    def question(self, query: Query) -> Document:
        """Ask about the effect of ``step``; the document contains the answer."""
        lesson = self._lesson()
        steps = lesson.steps
        number = _number(query, "step")
        if not 0 <= number < len(steps):
            raise BadRequest(f"there is no step {number}")
        if lesson.has_questions:
            own = steps[number].question
            return {"question": None if own is None else own._asdict()}
        before = dict(self._recording.znodes.after(steps[number].from_seq).znodes)
        found = question(before, self._recording.znodes.after(steps[number].seq).znodes)
        return {"question": None if found is None else found._asdict()}

    def _lesson(self) -> Lesson:
        try:
            return decode(self._recording.notes().get(KEY, '{"title": "", "said": "", "steps": []}'))
        except (ValueError, KeyError, TypeError):
            raise BadRequest("the lesson in this recording cannot be read") from None

    def _verdicts(self) -> dict[str, verdicts.Verdict]:
        try:
            return verdicts.decode(self._recording.notes().get(verdicts.KEY, "[]"))
        except (ValueError, KeyError, TypeError):
            raise BadRequest("the judges' verdicts in this recording cannot be read") from None

    def _priced(self, episode: Episode) -> Document:
        document = {**episode._asdict(), "seq": self._recording.entries.first_from(episode.from_ms)}
        if episode.lasts or episode.to_ms - episode.from_ms > LONGEST_COUNTED_MS:
            return {**document, "writes": None, "watches": None, "requests": None}
        kinds = self._recording.entries.kinds_between(episode.from_ms, episode.to_ms)
        writes = sum(kinds.get(kind, 0) for kind in CHANGES)
        watches, requests = kinds.get("WatchFired", 0), kinds.get("RequestSent", 0)
        return {**document, "writes": writes, "watches": watches, "requests": requests}

    def export(self, query: Query, path: Path) -> Iterator[None]:
        """Write the interval as a database, part by part. Raises: OSError, sqlite3.Error (while parts are written)."""
        first = self._recording.entries.first_from(_number(query, "from_ms"))
        last = self._recording.entries.seq_at(_number(query, "to_ms"))
        if not 0 < first <= last:
            raise BadRequest("nothing was recorded in that time")
        return export(self._recording, path, first, last)

    def _coordinated(self, seq: int) -> list[Document]:
        groups: dict[str, Document] = {}
        at = self._recording.entries.entry(seq)
        for entry in self._recording.entries.group_steps(0, at.time_ms if at else 0, MOST_MOVES):
            if entry.seq <= seq and entry.kind == ASSIGNED:
                groups[str(entry.document.get("group_id"))] = entry.document
        return [
            {"name": name, "generation": groups[name].get("generation"), "members": groups[name].get("assignments")}
            for name in sorted(groups)
        ]

    def entry(self, query: Query) -> Document:
        entry = self._recording.entries.entry(_number(query, "seq"))
        if entry is None:
            raise BadRequest(f"there is no entry {query.get('seq')}")
        told = explanation(entry.kind)
        return {
            **_short(entry),
            "title": title(entry),
            "document": _shown_document(entry),
            "why": [_short(each) for each in self._chain(entry)],
            "reason": reason(entry) if entry.cause is None else "",
            "effects": [_short(each) for each in self._recording.entries.effects(entry.seq, MOST_LINKS)],
            "explanation": None if told is None else told._asdict(),
        }

    def step(self, query: Query) -> Document:
        """``by``: 1 for the next entry, -1 for the previous one."""
        seq = min(self._recording.entries.count, self._seq(query) + (1 if query.get("by") != "-1" else -1))
        entry = self._recording.entries.entry(max(self._recording.entries.first, seq))
        if entry is None:
            raise BadRequest("nothing is recorded yet")
        return _short(entry)

    def at(self, query: Query) -> Document:
        return {"seq": max(self._recording.entries.first, self._recording.entries.seq_at(_number(query, "time_ms")))}

    def _seq(self, query: Query) -> int:
        return _number(query, "seq") if "seq" in query else self._recording.entries.count

    def _chain(self, entry: Entry) -> list[Entry]:
        chain: list[Entry] = []
        seen = {entry.seq}
        cause, likely_count = entry.cause, int(not entry.certain)
        while cause is not None and cause not in seen and len(chain) < MOST_LINKS and likely_count <= MOST_LIKELY:
            seen.add(cause)
            found = self._recording.entries.entry(cause)
            if found is None:
                break
            chain.append(found)
            cause = found.cause
            likely_count += not found.certain
        return chain


def _act(entry: Entry) -> Document:
    document, at_ms = entry.document, entry.time_ms
    text = f"{document.get('action')} {document.get('target')}. Expect: {document.get('expected')}"
    return _without_price(Episode("you", text, at_ms, at_ms, 0, lasts=False), entry.seq)


def _fenced(writes: FencedWrites) -> Document:
    return _without_price(writes.episode, writes.seq)


def _without_price(episode: Episode, seq: int) -> Document:
    return {**episode._asdict(), "seq": seq, "writes": None, "watches": None, "requests": None}


def _group_step(entry: Entry) -> GroupStep:
    document = entry.document
    members = document.get("assignments") or {}
    began = entry.kind != ASSIGNED
    return GroupStep(str(document.get("group_id")), began, document.get("generation", 0), len(members), entry.time_ms)


def _short(entry: Entry) -> Document:
    return {
        "seq": entry.seq,
        "time_ms": entry.time_ms,
        "microsecond": entry.document.get("microsecond"),
        "number": entry.document.get("number"),
        "actor": entry.actor,
        "kind": entry.kind,
        "path": entry.path,
        "zxid": entry.zxid,
        "cause": entry.cause,
        "certain": entry.certain,
        "line": line(entry),
    }


def _shown_document(entry: Entry) -> Document:
    """Session ids are text, as ZooKeeper's tools print them: the numbers exceed JavaScript's range."""
    if entry.kind not in CHANGES:
        return {
            key: f"{value & (1 << 64) - 1:#x}" if key in _SESSION_IDS and isinstance(value, int) else value
            for key, value in entry.document.items()
        }
    return {
        **entry.document, "before": _cut(entry.document["before"]), "after": _cut(entry.document["after"])
    }  # fmt: skip


def _cut(document: list[Any] | None) -> list[Any] | None:
    if document is None or document[0] is None or len(document[0]) <= MOST_DATA:
        return document
    return [f"{document[0][:MOST_DATA]}… ({len(document[0])} characters)", *document[1:]]


def _below(znodes: Iterable[str], parent: str) -> dict[str, int]:
    """Return the children of ``parent``, each with its number of descendants."""
    prefix = f"{parent.rstrip('/')}/"
    counts: dict[str, int] = {}
    for path in znodes:
        if path.startswith(prefix) and path != prefix:
            name, _, rest = path[len(prefix) :].partition("/")
            counts[prefix + name] = counts.get(prefix + name, 0) + bool(rest)
    return counts


def _several(query: Query, name: str) -> set[str]:
    return set(query.get(name, "").split("\n")) - {""}


def _number(query: Query, name: str) -> int:
    text = query.get(name, "")
    if not _WHOLE.fullmatch(text):
        raise BadRequest(f"{name} must be a whole number, not {text[:40]!r}")
    return int(text)
