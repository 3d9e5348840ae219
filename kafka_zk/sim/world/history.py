"""The facts of a run in the order in which they happened. The judges read nothing else."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition


class Sent(NamedTuple):
    """``Acked`` or ``Refused`` follows, unless the producer is killed."""

    time_ms: float
    actor: str
    tp: TopicPartition
    value: str


class Acked(NamedTuple):
    time_ms: float
    actor: str
    tp: TopicPartition
    value: str
    offset: int


class Refused(NamedTuple):
    """The producer reported a failure, but the record may still be in the log."""

    time_ms: float
    actor: str
    tp: TopicPartition
    value: str
    error: str


class Began(NamedTuple):
    """A producer began a transaction: it contains what the producer sends until ``Ended``."""

    time_ms: float
    actor: str


class Ended(NamedTuple):
    """A producer received the confirmation that its transaction has ended."""

    time_ms: float
    actor: str
    is_committed: bool


class HandedOut(NamedTuple):
    """``actor``: the member's id in the group.

    ``generation``: the generation of a broker group; -1 for a ZooKeeper group.
    """

    time_ms: float
    actor: str
    tp: TopicPartition
    offset: int
    value: str
    generation: int = -1


class Committed(NamedTuple):
    """A commit of a broker group's member was confirmed."""

    time_ms: float
    actor: str
    tp: TopicPartition
    offset: int


class Chosen(NamedTuple):
    """A member's program committed an offset of its own choice. Records below the offset need not be delivered."""

    time_ms: float
    actor: str
    tp: TopicPartition
    offset: int


class Stored(NamedTuple):
    time_ms: float
    tp: TopicPartition
    offset: int


class Lifted(NamedTuple):
    """An event of the product, which a broker, a controller or a member reported."""

    time_ms: float
    actor: str
    event: Event


class Happened(NamedTuple):
    """An action of the world: a fault, an operation, or its end."""

    time_ms: float
    text: str


class Found(NamedTuple):
    """A record in a log at the end of the run."""

    tp: TopicPartition
    offset: int
    value: str


class Kept(NamedTuple):
    """A committed offset in ``__consumer_offsets`` at the end of the run, in log order."""

    tp: TopicPartition
    offset: int


class Assigned(NamedTuple):
    generation: int
    partitions: Mapping[str, tuple[TopicPartition, ...]]


Fact = Sent | Acked | Refused | Began | Ended | HandedOut | Committed | Chosen | Stored | Lifted | Happened


class History:
    """Facts in order. The same seed gives the same ``digest``."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def add(self, fact: Fact) -> None:
        self.facts.append(fact)

    def digest(self) -> str:
        return hashlib.sha256("\n".join(map(repr, self.facts)).encode()).hexdigest()[:16]
