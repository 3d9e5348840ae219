"""The steps of one failover, election, rebalance or fenced write, to be played slowly: one arrow for each event. Pure.

Transactions are in the order of their zxids and each process's events in the order in which it wrote them; an effect
follows its certain cause, whatever the clocks say. Otherwise the clocks decide.
"""

import heapq
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafka_zk.broker.security.events import Denied
from kafka_zk.recorder.recording.entries import CHANGES, FROM_ZOOKEEPER, Entry
from kafka_zk.recorder.recording.session_names import ZOOKEEPER, process_of
from kafka_zk.recorder.web.arrows import YOU, arrow_of
from kafka_zk.recorder.web.episodes import CLUSTER, IN_BROKER, IN_ZOOKEEPER
from kafka_zk.recorder.web.group_members import group_of_member
from kafka_zk.recorder.web.narration import shortened
from kafka_zk.registry.znodes.consumers import CONSUMERS, group_path

AROUND_MS = 1_000
"""Slow motion includes effects up to this time after the episode's end, and causes up to this time before its
beginning."""
MOST_STEPS = 200
MOST_LANES = 12
OTHERS = "others"
_OF_CLUSTER = re.compile(r"(?:broker|controller)-\d+|session 0x[0-9a-f]+|ZooKeeper(?: .*)?")
_DENIED = Denied.__name__
_BROKER = re.compile(r"broker-(\d+)")


class Step(NamedTuple):
    """An arrow between two lanes, or an event within one. ``source`` and ``target``: indexes of lanes.

    ``after``: the time since the first step, as text; with microseconds if both are known. ``znode``: its path; "" for
    an event that concerns none.
    """

    seq: int
    time_ms: int
    microsecond: int | None
    after: str
    source: int
    target: int
    label: str
    znode: str
    said: str


class Play(NamedTuple):
    """Slow motion of at most MOST_STEPS steps. ``lanes``: you, brokers, ZooKeeper and its clients. ``is_whole``: True
    if no step is left out.
    """

    lanes: tuple[str, ...]
    steps: tuple[Step, ...]
    is_whole: bool


def involved(entries: Sequence[Entry], subject: str, to_ms: int, groups: Collection[str]) -> list[Entry]:
    """The entries that belong to an episode: those of its subject up to ``to_ms``, and their later effects.

    Args:
        entries: sorted by time, from the episode's beginning to AROUND_MS after its end.
        groups: all groups in ZooKeeper.
    """
    found: dict[int, Entry] = {}
    for entry in entries:
        if _concerns(entry, subject, groups) and (entry.time_ms <= to_ms or entry.cause in found):
            found[entry.seq] = entry
    return list(found.values())


def _concerns(entry: Entry, subject: str, groups: Collection[str]) -> bool:
    name = group_of(subject)
    if subject == CLUSTER:
        is_of_clients = "group_id" in entry.document or entry.path.startswith(f"{CONSUMERS}/") or entry.kind == _DENIED
        return not is_of_clients and _OF_CLUSTER.fullmatch(entry.actor) is not None
    if subject.startswith(f"{IN_BROKER} "):
        return entry.document.get("group_id") == name
    if subject.startswith(f"{IN_ZOOKEEPER} "):
        is_elsewhere = entry.path.startswith(f"{CONSUMERS}/") and not _is_below(entry.path, name)
        return _is_below(entry.path, name) or (group_of_member(entry.actor, groups) == name and not is_elsewhere)
    return entry.kind not in CHANGES and f"{entry.actor} ".startswith(f"{subject} ")


def _is_below(path: str, name: str) -> bool:
    return f"{path}/".startswith(f"{group_path(name)}/")


def group_of(subject: str) -> str:
    """The group of an episode; "" for episodes without a group."""
    for kind in (IN_BROKER, IN_ZOOKEEPER):  # the longer prefix first
        if subject.startswith(f"{kind} "):
            return subject.removeprefix(f"{kind} ")
    return ""


def slow_motion(entries: Iterable[Entry], group_id: str = "", stale: Mapping[int, str] | None = None) -> Play:
    """The slow motion of these entries, without those that only repeat others.

    Args:
        group_id: the ZooKeeper group whose members report; "" for others.
        stale: the process that was the controller of each earlier epoch.
    """
    told = {each.seq: each for each in entries}
    arrows = {seq: found for seq, each in told.items() if (found := arrow_of(each, group_id, stale or {})) is not None}
    ordered = _in_order([told[seq] for seq in arrows])
    shown = ordered[:MOST_STEPS]
    lanes = _lanes(lane for each in shown for lane in arrows[each.seq][:2])
    places = {lane: index for index, lane in enumerate(lanes)}
    last = len(lanes) - 1
    steps = []
    for entry in shown:
        source, target, label, znode, said = arrows[entry.seq]
        ends = places.get(source, last), places.get(target, last)
        after = _after(shown[0], entry)
        texts = shortened(label), znode, shortened(said)
        steps.append(Step(entry.seq, entry.time_ms, _microsecond(entry), after, *ends, *texts))
    return Play(lanes, tuple(steps), len(ordered) <= MOST_STEPS)


def _after(first: Entry, entry: Entry) -> str:
    if None in (_microsecond(first), _microsecond(entry)):
        return f"{entry.time_ms - first.time_ms:+,} ms"
    return f"{(_time_us(entry) - _time_us(first)) / 1000:+,.3f} ms"


def _time_us(entry: Entry) -> int:
    return entry.time_ms * 1000 + (_microsecond(entry) or 0)


def _microsecond(entry: Entry) -> int | None:
    told = entry.document.get("microsecond")
    return told if isinstance(told, int) else None


# --- order ---


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Sort the entries by time, but each after its predecessor in its source and after its certain cause."""
    rows = sorted(entries, key=lambda each: each.seq)
    after: dict[int, list[Entry]] = {}
    waiting_count = {each.seq: 0 for each in rows}
    for before, entry in _edges(rows):
        after.setdefault(before, []).append(entry)
        waiting_count[entry.seq] += 1
    ready = [(_time_us(each), each.seq, each) for each in rows if not waiting_count[each.seq]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        *_, entry = heapq.heappop(ready)
        ordered.append(entry)
        for each in after.get(entry.seq, ()):
            waiting_count[each.seq] -= 1
            if not waiting_count[each.seq]:
                heapq.heappush(ready, (_time_us(each), each.seq, each))
    return ordered


def _edges(rows: Sequence[Entry]) -> Iterator[tuple[int, Entry]]:
    """Pairs of a number and an entry that must follow it. Numbers ascend along an edge, so there is no cycle."""
    seqs = {each.seq for each in rows}
    last: dict[str, int] = {}
    for entry in rows:
        source = "" if entry.kind in FROM_ZOOKEEPER else process_of(entry.actor)
        if source in last:
            yield last[source], entry
        last[source] = entry.seq
        if entry.certain and entry.cause in seqs and entry.cause is not None and entry.cause < entry.seq:
            yield entry.cause, entry


# --- lanes ---


def _lanes(names: Iterable[str]) -> tuple[str, ...]:
    """The user and brokers, then ZooKeeper, then its clients: so most arrows are between neighbours or to ZooKeeper."""
    found = list(dict.fromkeys(names))
    kept = found if len(found) <= MOST_LANES else found[: MOST_LANES - 1]
    return (*sorted(kept, key=_rank), *([OTHERS] if kept is not found else []))


def _rank(lane: str) -> tuple[int, int, str]:
    broker = _BROKER.fullmatch(lane)
    kind = 0 if lane == YOU else 1 if broker else 2 if lane == ZOOKEEPER else 3
    return kind, int(broker[1]) if broker else 0, lane
