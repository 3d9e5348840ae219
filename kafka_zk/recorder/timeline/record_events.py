"""Events about single records, from the simulator and from lessons, which observe every record. Pure.

Recordings of a live cluster lack these events, because the recorder samples offsets from outside.
"""

from dataclasses import dataclass

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class RecordEvent(Event):
    """Base of the events about the records of one partition."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class ReplicaSeen(RecordEvent):
    """What a replica has on its disk: ``values`` from ``first_offset`` on, and the high watermark that it knows (-1:
    none). ``is_there``: False if it has no log.
    """

    is_there: bool
    first_offset: int
    values: tuple[str, ...]
    high_watermark: int


@dataclass(frozen=True, slots=True)
class RecordAcknowledged(RecordEvent):
    """A broker acknowledged a producer's record, which is written at this offset."""

    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class RecordRead(RecordEvent):
    """A member's program received this record."""

    offset: int
    value: str
