"""Decides which partition lanes the timeline folds by topic, and when partitions had no holder. Pure."""

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from kafka_zk.recorder.recording.spans import LaneGroup, Span
from kafka_zk.recorder.web.cluster_view import is_internal

MOST_UNASKED = 12
"""Number of lanes; larger topics are folded until the user unfolds them."""


_NEVER = 1 << 62


class Silence(NamedTuple):
    """An interval in which ``lane_count`` of a group's lanes had no holder. ``to_ms``: None while it lasts."""

    from_ms: int
    to_ms: int | None
    lane_count: int


def is_folded(group: LaneGroup, opened: Collection[str], closed: Collection[str]) -> bool:
    """True if the lanes are folded. ``opened`` and ``closed``: the user's exceptions, as ``kind stem``."""
    name = f"{group.kind} {group.stem}"
    by_itself = group.lane_count > MOST_UNASKED or is_internal(group.stem.rpartition(": ")[2])
    return name in closed or (by_itself and name not in opened)


def with_outages(spans: Iterable[Span], brokers: Iterable[Span]) -> list[Span]:
    """The spans of partitions, in which leaders without a session are removed: a partition has no leader from the end
    of its leader's session until the controller's next write.

    Args:
        brokers: the spans of registrations.
    """
    gone: dict[str, list[Span]] = {}
    for each in brokers:
        if each.kind == "broker" and not each.holder:
            gone.setdefault(each.lane, []).append(each)
    found: list[Span] = []
    for span in spans:
        found += _cut(span, gone.get(span.holder, ())) if span.kind == "leader" else (span,)
    return found


def _cut(span: Span, outages: Iterable[Span]) -> Iterator[Span]:
    """The parts of a leader's span with and without the leader's session."""
    from_ms, last_ms = span.from_ms, _last(span.to_ms)
    for outage in outages:
        begin, end = max(outage.from_ms, from_ms), min(_last(outage.to_ms), last_ms)
        if begin >= end:
            continue
        if begin > from_ms:
            yield span._replace(from_ms=from_ms, to_ms=begin)
        yield span._replace(holder="", note="", from_ms=begin, to_ms=None if end == _NEVER else end)
        from_ms = end
    if from_ms < last_ms:
        yield span._replace(from_ms=from_ms)


def _last(to_ms: int | None) -> int:
    return _NEVER if to_ms is None else to_ms


def silences(vacant: Iterable[tuple[int, int | None]]) -> list[Silence]:
    """The number of lanes without a holder over time. ``vacant``: the spans without a holder."""
    change_count: dict[int, int] = {}
    lasting = 0
    for from_ms, to_ms in vacant:
        change_count[from_ms] = change_count.get(from_ms, 0) + 1
        if to_ms is None:
            lasting += 1
        else:
            change_count[to_ms] = change_count.get(to_ms, 0) - 1
    times = sorted(change_count)
    found, count = [], 0
    for time_ms, next_ms in pairwise(times):
        count += change_count[time_ms]
        if count:
            found.append(Silence(time_ms, next_ms, count))
    if lasting:
        found.append(Silence(times[-1], None, lasting))
    return found
