"""The status of a group's extractions, without Spark: lag, last range, rate, and an unfinished plan. Pure.

The group's offsets say what has been extracted, and its manifest what the last run did. ZooKeeper stamps each write of
the manifest, so the time of its last write is the end of a run whose range is committed.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.extraction.manifest import Manifest, State
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

_COMMITTED = (State.COMMITTED, State.PUBLISHED)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The state that was read from ZooKeeper and the brokers.

    ``offsets``: the group's offsets; absent or -1 where none is committed. ``outdated``: offsets of earlier topics of
    the same names. ``log_starts``, ``log_ends`` (last stable offsets): a string instead of a number says why it is
    unknown. ``written_ms``: when the manifest was written, in ms since the epoch. ``members``: live members of the
    group.
    """

    group: str
    offsets: Mapping[TopicPartition, int]
    outdated: Mapping[TopicPartition, int] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, int | str]
    log_ends: Mapping[TopicPartition, int | str]
    manifest: Manifest | None = None
    written_ms: int = 0
    members: int = 0


@dataclass(frozen=True)
class PartitionStatus:
    """``offset``: the next offset to extract; None if none is committed. ``lag``: number of offsets from ``offset``, or
    else from the log's beginning, to the log's end; None if unknown. ``lost``: how many of these the log no longer has.
    ``last_from`` and ``last_until``: bounds in the last range; None if the partition is not in it. ``problem``: why the
    lag is unknown, or why the next run will not continue at ``offset``.
    """

    topic: str
    partition: int
    offset: int | None
    end_offset: int | None = None
    lag: int | None = None
    lost: int = 0
    last_from: int | None = None
    last_until: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class RunStatus:
    """The run that wrote the manifest. ``planned_ms``: time of the plan, by the run's own clock. ``written_ms``: time
    of its last step, by ZooKeeper's clock. ``offsets``: number of offsets in its ranges.
    """

    name: str
    state: str
    target: str
    format: str
    planned_ms: int
    written_ms: int
    offsets: int

    @property
    def offsets_per_second(self) -> float | None:
        """From the plan to the last step; None if no range was committed or the clocks differ too much."""
        if self.state not in _COMMITTED:
            return None
        duration_ms = self.written_ms - self.planned_ms
        return self.offsets * 1000 / duration_ms if duration_ms > 0 else None


@dataclass(frozen=True)
class GroupStatus:
    """``last``: the run of the last committed range, None if the manifest has none, for example while it contains a
    newer plan. ``unfinished``: a run that is in progress or was killed; the next run finishes or drops its attempt.
    """

    group: str
    partitions: tuple[PartitionStatus, ...]
    members: int = 0
    last: RunStatus | None = None
    unfinished: RunStatus | None = None

    @property
    def lag(self) -> int:
        """The total lag of all partitions whose lag is known."""
        return sum(each.lag for each in self.partitions if each.lag is not None)

    @property
    def unknown(self) -> tuple[PartitionStatus, ...]:
        return tuple(each for each in self.partitions if each.lag is None)

    def as_document(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "lag": self.lag,
            "unknown": len(self.unknown),
            "lost": sum(each.lost for each in self.partitions),
            "members": self.members,
            "last": None if self.last is None else _document(self.last),
            "unfinished": None if self.unfinished is None else _document(self.unfinished),
            "partitions": [asdict(each) for each in self.partitions],
        }


def status_of(seen: Observed) -> GroupStatus:
    """One row for each partition in ``log_ends``, sorted."""
    last = seen.manifest if seen.manifest is not None and seen.manifest.state in _COMMITTED else None
    ranges = {} if last is None else {each.tp: each for each in last.ranges}
    rows = tuple(_partition(tp, seen, ranges.get(tp)) for tp in sorted(seen.log_ends))
    run = None if seen.manifest is None else _run(seen.manifest, seen.written_ms)
    unfinished = seen.manifest is not None and seen.manifest.unfinished
    return GroupStatus(seen.group, rows, seen.members, run if last is not None else None, run if unfinished else None)


def _partition(tp: TopicPartition, seen: Observed, last: OffsetRange | None) -> PartitionStatus:
    stored = -1 if tp in seen.outdated else seen.offsets.get(tp, -1)
    row = PartitionStatus(
        topic=tp.topic,
        partition=tp.partition,
        offset=stored if stored >= 0 else None,
        last_from=None if last is None else last.from_offset,
        last_until=None if last is None else last.until_offset,
    )
    start, end = seen.log_starts[tp], seen.log_ends[tp]
    if isinstance(end, str):
        return replace(row, problem=end)
    if isinstance(start, str):
        return replace(row, end_offset=end, problem=start)
    return replace(
        row,
        end_offset=end,
        lag=max(0, end - (stored if stored >= 0 else start)),
        lost=max(0, start - stored) if stored >= 0 else 0,
        problem=_problem(seen.outdated.get(tp), stored, start, end),
    )


def _problem(outdated: int | None, stored: int, start: int, end: int) -> str | None:
    if outdated is not None:
        return f"the topic was deleted and recreated since offset {outdated}"
    if stored > end:
        return f"the last stable offset is {end}, before the group's offset"
    if 0 <= stored < start:
        return f"the log begins at offset {start}, after the group's offset"
    return None


def _run(manifest: Manifest, written_ms: int) -> RunStatus:
    return RunStatus(
        name=manifest.name,
        state=manifest.state.value,
        target=manifest.target,
        format=manifest.format,
        planned_ms=manifest.timestamp_ms,
        written_ms=written_ms,
        offsets=sum(each.size for each in manifest.ranges),
    )


def _document(run: RunStatus) -> dict[str, Any]:
    rate = run.offsets_per_second
    return {**asdict(run), "offsets_per_second": None if rate is None else round(rate)}
