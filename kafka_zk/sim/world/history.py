"""What was seen in a run, in the order in which it happened: the judges read nothing else."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition


class Sent(NamedTuple):
    """A producer was given a record; ``Acked`` or ``Refused`` follows, unless the producer is killed."""

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
    """An error came instead: the record may be in the log all the same."""

    time_ms: float
    actor: str
    tp: TopicPartition
    value: str
    error: str


class HandedOut(NamedTuple):
    """A member of a group gave a record to its user; ``actor`` is its id in the group.

    ``generation``: of a group of the broker; -1 of one of ZooKeeper.
    """

    time_ms: float
    actor: str
    tp: TopicPartition
    offset: int
    value: str
    generation: int = -1


class Committed(NamedTuple):
    """A member of a group of the broker was told that its offset is written."""

    time_ms: float
    actor: str
    tp: TopicPartition
    offset: int


class Chosen(NamedTuple):
    """A member's program commits an offset of its own choice: what is below need not be given to anybody."""

    time_ms: float
    actor: str
    tp: TopicPartition
    offset: int


class Stored(NamedTuple):
    """An offset that the group committed, as it stands in ZooKeeper."""

    time_ms: float
    tp: TopicPartition
    offset: int


class Lifted(NamedTuple):
    """An event of the product: of a broker, a controller, a member."""

    time_ms: float
    actor: str
    event: Event


class Happened(NamedTuple):
    """Something that the world did: a fault, an operation, its end."""

    time_ms: float
    text: str


class Found(NamedTuple):
    """A record that lies in a log at the end."""

    tp: TopicPartition
    offset: int
    value: str


class Kept(NamedTuple):
    """An offset of the group in ``__consumer_offsets``, in the order in which they lie there at the end."""

    tp: TopicPartition
    offset: int


class Assigned(NamedTuple):
    """A generation of the group in ``__consumer_offsets``, once it has an assignment."""

    generation: int
    partitions: Mapping[str, tuple[TopicPartition, ...]]


Fact = Sent | Acked | Refused | HandedOut | Committed | Chosen | Stored | Lifted | Happened


class History:
    """Facts in order, and a digest of them: the same seed gives the same."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def add(self, fact: Fact) -> None:
        self.facts.append(fact)

    def digest(self) -> str:
        return hashlib.sha256("\n".join(map(repr, self.facts)).encode()).hexdigest()[:16]
