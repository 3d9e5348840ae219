"""The actions of clients on the topics of a campaign, and the findings of a reader after the power came back. Pure
values.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Keeps(enum.Enum):
    """What a log must still have between its first and last offset. ``ALL``: each record since offset 0.
    ``TAIL``: each record; retention or DeleteRecords may have moved the first offset. ``NEWEST``: compaction may have
    removed records that are followed by a later record of the same key."""

    ALL = "all"
    TAIL = "tail"
    NEWEST = "newest"


@dataclass(frozen=True)
class Topic:
    """A topic of one partition. ``durable``: records acknowledged before the cut must be there after it.
    ``transactional``: only transactions write to it.
    """

    name: str
    keeps: Keeps = Keeps.ALL
    durable: bool = False
    transactional: bool = False
    config: Mapping[str, str] = field(default_factory=dict)


class Record(NamedTuple):
    """``value`` is None for a tombstone."""

    key: bytes
    value: bytes | None


class Acknowledged(NamedTuple):
    offset: int
    record: Record


class Transaction(NamedTuple):
    """A transaction that its program has committed or aborted: the offsets of its records by topic."""

    number: int
    offsets: Mapping[str, list[int]]


Offsets = Mapping[str, int]
"""The committed offset by topic."""


@dataclass
class History:
    """What the clients know; lists only grow. A transaction may be in ``asked`` (its program requested the
    commit), then in ``committed`` (the broker has confirmed it), ``aborted`` or ``unknown``. ``commits_asked`` and
    ``commits``: the offsets of an ordinary group, as sent and as acknowledged. The group of the transactions
    commits, for each of their topics, the number of the transaction + 1.
    """

    acknowledged: dict[str, list[Acknowledged]] = field(default_factory=dict)
    sent: dict[str, set[Record]] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    committed: list[Transaction] = field(default_factory=list)
    aborted: list[Transaction] = field(default_factory=list)
    unknown: list[Transaction] = field(default_factory=list)
    commits_asked: list[Offsets] = field(default_factory=list)
    commits: list[Offsets] = field(default_factory=list)

    def add(self, topic: Topic) -> None:
        """The topic's creation is confirmed."""
        self.sent[topic.name] = set()
        self.acknowledged[topic.name] = []

    def mark(self) -> Mark:
        """The current lengths of the lists."""
        return Mark(
            {topic: len(acknowledged) for topic, acknowledged in list(self.acknowledged.items())},
            len(self.committed), len(self.asked), len(self.commits),
        )  # fmt: skip

    def before(self, topic: str, mark: Mark) -> Sequence[Acknowledged]:
        """The records of a topic that were acknowledged before the mark."""
        return self.acknowledged[topic][: mark.acknowledged.get(topic, 0)]


class Mark(NamedTuple):
    """A cut, as lengths of a history's lists: the entries confirmed before the cut began, and the entries of ``asked``
    before it ended.
    """

    acknowledged: Mapping[str, int]
    committed: int
    asked: int
    commits: int


class Log(NamedTuple):
    """The records that a reader got of a topic, by offset, and the beginning and end of the log according to the
    broker. ``committed``: the same with isolation.level=read_committed; None for topics without transactions.
    ``is_stuck``: a reader got no more records, although it had not reached the end.
    """

    start: int
    end: int
    records: Mapping[int, Record]
    committed: Mapping[int, Record] | None = None
    is_stuck: bool = False


class Found(NamedTuple):
    """All results of the reads after the power came back. A group's offsets omit topics without a committed offset; the
    transactions' group is None if its offsets were still unstable when the reader gave up.
    """

    logs: Mapping[str, Log]
    group: Offsets
    transactional_group: Offsets | None
