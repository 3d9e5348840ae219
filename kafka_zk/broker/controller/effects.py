"""What the state machines ask for: znodes to write and requests to send. The drivers carry these out."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import LeadershipInfo


class CreateState(NamedTuple):
    """Create the partition's state znode (and its parents)."""

    partition: TopicPartition
    info: LeadershipInfo


class WriteState(NamedTuple):
    """Set the partition's state znode if it is still at version ``info.zk_version``; then tell ``recipients``."""

    partition: TopicPartition
    info: LeadershipInfo
    recipients: tuple[int, ...]


class FailedChange(NamedTuple):
    """A change of state that is legal but not possible now; the partition stays as it was."""

    partition: TopicPartition
    reason: str


class SendLeaderAndIsr(NamedTuple):
    """Tell these brokers who leads the partition, and all live brokers with UpdateMetadata."""

    broker_ids: tuple[int, ...]
    partition: TopicPartition
    is_new: bool = False


class SendStopReplica(NamedTuple):
    """Tell a broker to stop its replica, and to delete it if ``delete``."""

    broker_id: int
    partition: TopicPartition
    delete: bool = False


class SendUpdateMetadata(NamedTuple):
    """Tell brokers (None: all live ones) about the live brokers and the given partitions."""

    broker_ids: tuple[int, ...] | None
    partitions: Collection[TopicPartition] = ()


Send = SendLeaderAndIsr | SendStopReplica | SendUpdateMetadata


def without_news_of(effects: Iterable[Send], tps: Collection[TopicPartition]) -> list[Send]:
    """The effects without UpdateMetadata for these partitions, which every broker has just received."""
    kept: list[Send] = []
    for effect in effects:
        if isinstance(effect, SendUpdateMetadata) and effect.partitions:
            news = [tp for tp in effect.partitions if tp not in tps]
            if news:
                kept.append(effect._replace(partitions=news))
        else:
            kept.append(effect)
    return kept
