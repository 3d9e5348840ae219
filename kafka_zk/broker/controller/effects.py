"""The effects that the state machines request and the drivers execute: znodes to write, requests to send."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import LeadershipInfo


class CreateState(NamedTuple):
    """Create the partition's state znode and its missing parents."""

    partition: TopicPartition
    info: LeadershipInfo


class WriteState(NamedTuple):
    """Set the partition's state znode if its version is still ``info.zk_version``, then notify ``recipients``."""

    partition: TopicPartition
    info: LeadershipInfo
    recipients: tuple[int, ...]


class FailedChange(NamedTuple):
    """A legal change of state that is impossible now."""

    partition: TopicPartition
    reason: str


class SendLeaderAndIsr(NamedTuple):
    """Send LeaderAndIsr for the partition to these brokers, and UpdateMetadata to all live brokers."""

    broker_ids: tuple[int, ...]
    partition: TopicPartition
    is_new: bool = False


class SendStopReplica(NamedTuple):
    """``delete``: the broker also deletes the replica's log."""

    broker_id: int
    partition: TopicPartition
    delete: bool = False


class SendUpdateMetadata(NamedTuple):
    """Send UpdateMetadata with all live brokers and these partitions. ``broker_ids``: the recipients; None: all
    brokers."""

    broker_ids: tuple[int, ...] | None
    partitions: Collection[TopicPartition] = ()


Send = SendLeaderAndIsr | SendStopReplica | SendUpdateMetadata


def without_updates_of(effects: Iterable[Send], tps: Collection[TopicPartition]) -> list[Send]:
    """The effects without UpdateMetadata for ``tps``, which every broker has just received."""
    kept: list[Send] = []
    for effect in effects:
        if isinstance(effect, SendUpdateMetadata) and effect.partitions:
            news = [tp for tp in effect.partitions if tp not in tps]
            if news:
                kept.append(effect._replace(partitions=news))
        else:
            kept.append(effect)
    return kept
