"""Records as squares: for each partition, those acknowledged, those on each replica, and those that each group has
read.

Pure. The events report this for every single record. A square is red only if the judges found a fault of the record,
and only from the moment when the fault is visible.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.timeline.record_events import RecordAcknowledged, RecordEvent, RecordRead, ReplicaSeen
from kafka_zk.recorder.web.verdicts import LEFT_OUT, LOST, NOT_READ, READ_TWICE, WRITTEN_TWICE, Fault

MOST_COLUMNS = 16
"""Number of offsets shown for a partition, the highest ones; lower ones are only counted."""
MOST_PARTITIONS = 6
ACKNOWLEDGED, REPLICA, GROUP = "acknowledged", "replica", "group"
"""Kinds of rows."""
WENT_BACK = "went back"
_BECAME = {
    LOST: "lost: acknowledged, but no longer in the leader's log",
    WRITTEN_TWICE: "written twice in the same log",
    NOT_READ: "not read by any member",
    READ_TWICE: "read twice, which the other rule prevents",
    LEFT_OUT: "left out of a committed transaction: readers of committed records do not get it",
}


class Square(NamedTuple):
    """A record in a row. ``state``: acknowledged; appended or passed (the high watermark), or gone; read, committed,
    skipped (committed, not read), unread, or back (no longer committed). ``said``: the same in words. ``fault``: the
    record's fate if the square is red, else "". ``lost``: the lost record, if several were acknowledged at this offset.
    """

    value: str
    state: str
    said: str
    fault: str = ""
    lost: str = ""


class Row(NamedTuple):
    """``note``: a few words about its holder. ``older_count``: records before the first column, ``older_faults`` of
    which are red. ``squares``: one for each column, or None.
    """

    kind: str
    name: str
    note: str
    older_count: int
    older_faults: int
    squares: tuple[Square | None, ...]


class PartitionRecords(NamedTuple):
    """``columns``: the offsets of the columns, as text."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class Commit(NamedTuple):
    """A group's committed offset, and the largest one before it. ``is_fault``: the judges found that it decreased."""

    offset: int
    before: int
    is_fault: bool = False


class Seen(NamedTuple):
    """The known facts at one moment. ``cluster``: the cluster's document, with all partitions. ``commits``: by group
    and partition. ``faults``: of all records of the run. ``is_over``: no more steps of the run follow.
    """

    events: Sequence[RecordEvent]
    cluster: Document
    commits: Mapping[tuple[str, TopicPartition], Commit]
    faults: Collection[Fault]
    is_over: bool


def records_of(seen: Seen) -> list[PartitionRecords]:
    """The records of partitions that exist and had records, at most MOST_PARTITIONS."""
    written = {each.partition for each in seen.events if not isinstance(each, ReplicaSeen) or each.values}
    states = {
        TopicPartition(topic["name"], each["partition"]): each
        for topic in seen.cluster["topics"]
        for each in topic["partitions"]
    }
    tps = [tp for tp in sorted(written) if tp in states][:MOST_PARTITIONS]
    return [_Partition(tp, states[tp], seen).records() for tp in tps]


def faults_in(partitions: Iterable[PartitionRecords]) -> list[str]:
    """A sentence for each fate of the red records."""
    values: dict[str, dict[str, None]] = {}
    sentences = []
    for square in (each for partition in partitions for row in partition.rows for each in row.squares):
        if square is None or not square.fault:
            continue
        if square.fault == WENT_BACK:
            sentences.append(f"{square.said[0].upper()}{square.said[1:]}.")
        else:
            values.setdefault(square.fault, {})[square.lost or square.value] = None
    sentences += [f"{_listed(list(found))} {_BECAME[fate]}." for fate, found in values.items()]
    return list(dict.fromkeys(sentences))


def _listed(values: Sequence[str]) -> str:
    if len(values) == 1:
        return f"{values[0]} is"
    return f"{', '.join(values[:-1])} and {values[-1]} are"


class _Partition:
    def __init__(self, tp: TopicPartition, state: Document, seen: Seen) -> None:
        self._tp, self._state, self._seen = tp, state, seen
        own = [each for each in seen.events if each.partition == tp]
        self._acknowledged = [each for each in own if isinstance(each, RecordAcknowledged)]
        self._reads = [each for each in own if isinstance(each, RecordRead)]
        self._replicas = {each.actor: each for each in own if isinstance(each, ReplicaSeen)}
        self._faults = {(each.fate, each.value) for each in seen.faults if each.tp == tp}
        self._leader = self._replicas.get(f"broker-{state['leader']}")
        ends = [each.offset + 1 for each in self._acknowledged]
        ends += [each.offset + 1 for each in self._reads]
        ends += [each.first_offset + len(each.values) for each in self._replicas.values()]
        self._end = max(ends, default=0)
        self._first = max(0, self._end - MOST_COLUMNS)

    def records(self) -> PartitionRecords:
        rows = [self._told(), *map(self._replica, self._state["replicas"]), *self._groups()]
        return PartitionRecords(str(self._tp), tuple(map(str, range(self._first, self._end))), tuple(rows))

    # -- producers --------------------------------------------------------------------------------------------------

    def _told(self) -> Row:
        squares: dict[int, Square] = {}
        for each in self._acknowledged:
            before = squares.get(each.offset)
            value = each.value if before is None else f"{before.value} {each.value}"
            said = f"{each.value} is acknowledged" if before is None else f"{before.said}, {each.value} too"
            squares[each.offset] = (before or Square("", ACKNOWLEDGED, ""))._replace(value=value, said=said)
            if self._is_lost(each.value):
                said = f"{each.value} is lost: it was acknowledged at offset {each.offset}, where {self._there(each)}"
                squares[each.offset] = Square(value, ACKNOWLEDGED, said, LOST, each.value)
        producers = dict.fromkeys(each.actor for each in self._acknowledged)
        return self._row(ACKNOWLEDGED, "acknowledged", f"to {' and '.join(producers)}" if producers else "", squares)

    def _is_lost(self, value: str) -> bool:
        """True from the moment of the loss: until then, some log still had the record."""
        return (LOST, value) in self._faults and not any(value in each.values for each in self._readable())

    def _readable(self) -> Iterable[ReplicaSeen]:
        """The leader's log; without a leader, all logs, because a record on any disk is not lost yet."""
        if self._state["leader"] < 0:
            return self._replicas.values()
        return () if self._leader is None else (self._leader,)

    def _there(self, told: RecordAcknowledged) -> str:
        if self._leader is not None and not self._leader.is_there:
            return "the leader has no log any more"
        value = None if self._leader is None else _values(self._leader).get(told.offset)
        return f"the leader has {'nothing' if value is None else value}"

    # -- brokers ----------------------------------------------------------------------------------------------------

    def _replica(self, broker_id: int) -> Row:
        name, leads = f"broker-{broker_id}", self._state["leader"] == broker_id
        replica = self._replicas.get(name)
        values = {} if replica is None else _values(replica)
        mark = -1 if replica is None else replica.high_watermark
        squares = {offset: self._on_disk(offset, value, mark, values) for offset, value in values.items()}
        if leads:
            for each in self._acknowledged:
                if self._is_lost(each.value) and each.offset not in squares:
                    said = f"{each.value} is gone from the leader's log"
                    squares[each.offset] = Square(each.value, "gone", said, LOST)
        isr = broker_id in self._state["isr"]
        notes = ["leads" if leads else "in sync" if isr else "behind"]
        if not any(each["id"] == broker_id for each in self._seen.cluster["brokers"]):
            notes.append("no session")
        if replica is None or not replica.is_there:
            notes.append("no log")
        return self._row(REPLICA, f"broker {broker_id}", ", ".join(notes), squares)

    def _on_disk(self, offset: int, value: str, mark: int, values: Mapping[int, str]) -> Square:
        state = "passed" if offset < mark else "appended"
        if (WRITTEN_TWICE, value) in self._faults and sum(each == value for each in values.values()) > 1:
            return Square(value, state, f"{value} is written twice", WRITTEN_TWICE)
        if (LEFT_OUT, value) in self._faults and self._seen.is_over:
            return Square(value, state, f"{value} is aborted, although its transaction is committed", LEFT_OUT)
        said = "below the high watermark" if state == "passed" else "written, above the high watermark"
        led = None if self._leader is None else _values(self._leader).get(offset)
        other = f"; the leader has {led} there" if led not in (None, value) else ""
        return Square(value, state, f"{value}: {said}{other}")

    # -- groups -----------------------------------------------------------------------------------------------------

    def _groups(self) -> Iterator[Row]:
        groups = [each["name"] for each in self._seen.cluster["groups"]]
        by_group: dict[str, list[RecordRead]] = {group: [] for group, tp in self._seen.commits if tp == self._tp}
        for each in self._reads:
            group = next((name for name in groups if each.actor.startswith(f"{name}_")), "")
            by_group.setdefault(group, []).append(each)
        unread = [each.value for each in self._seen.faults if each.tp == self._tp and each.fate == NOT_READ]
        if unread and not by_group and self._seen.is_over:
            by_group[groups[0] if groups else ""] = []
        for group, reads in sorted(by_group.items()):
            yield self._group(group, reads, self._seen.commits.get((group, self._tp)))

    def _group(self, group: str, reads: Sequence[RecordRead], commit: Commit | None) -> Row:
        by_offset: dict[int, list[RecordRead]] = {}
        for each in reads:
            by_offset.setdefault(each.offset, []).append(each)
        there = {} if self._leader is None else _values(self._leader)
        committed = 0 if commit is None else commit.offset
        squares = {offset: self._read(offset, own, committed) for offset, own in by_offset.items()}
        for offset, value in there.items():
            if offset not in squares and offset < committed:
                squares[offset] = Square(value, "skipped", f"{value} is committed, but was not read")
            elif offset not in squares and (NOT_READ, value) in self._faults and self._seen.is_over:
                squares[offset] = Square(value, "unread", f"{value} is not read by any member", NOT_READ)
        notes = [] if commit is None else [f"committed {committed}"]
        if commit is not None and commit.before > committed:
            notes.append(f"before {commit.before}")
            said = f"the committed offset of {self._tp} went back from {commit.before} to {committed}"
            for offset in range(committed, commit.before):
                if (square := squares.get(offset)) is not None and not square.fault:
                    squares[offset] = Square(square.value, "back", said, WENT_BACK if commit.is_fault else "")
        return self._row(GROUP, f"group {group}" if group else "readers", ", ".join(notes), squares)

    def _read(self, offset: int, reads: Sequence[RecordRead], committed: int) -> Square:
        values = dict.fromkeys(each.value for each in reads)
        members = " and ".join(dict.fromkeys(_member(each.actor) for each in reads))
        value = " ".join(values)
        if len(reads) > 1 and any((READ_TWICE, each) in self._faults for each in values):
            return Square(value, "read", f"{value} is read twice, by {members}", READ_TWICE)
        state, more = ("committed", " and committed") if offset < committed else ("read", "")
        return Square(value, state, f"{value} is read by {members}{more}")

    def _row(self, kind: str, name: str, note: str, squares: Mapping[int, Square]) -> Row:
        older = [each for offset, each in squares.items() if offset < self._first]
        shown = tuple(map(squares.get, range(self._first, self._end)))
        return Row(kind, name, note, len(older), sum(bool(each.fault) for each in older), shown)


def _values(replica: ReplicaSeen) -> dict[int, str]:
    return dict(enumerate(replica.values, replica.first_offset))


def _member(actor: str) -> str:
    """The name of a member in its id: ``class_anna-1`` is anna."""
    return (actor.partition("_")[2] or actor).partition("-")[0]
