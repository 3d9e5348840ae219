"""Old rules of replication and of ZooKeeper's servers; ``old_rules`` has those of groups and controllers."""

from typing import Any, Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import election
from kafka_zk.broker.replica import follower_fetch
from kafka_zk.broker.replica.fetcher_effects import Truncate
from kafka_zk.broker.replica.fetcher_state import FetcherState
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.protocol.fetch import EpochEndOffset
from kafka_zk.protocol.fetch_request import FetchPartition
from kafka_zk.sim.zookeeper.server import Server
from kafka_zk.storage.log.log import Log


class Patch(Protocol):
    """Replaces attributes until it is undone."""

    def setattr(self, owner: Any, name: str, value: Any, /) -> None: ...


def no_min_insync_replicas(patch: Patch) -> None:
    """One replica in sync is enough for acks=all, whatever min.insync.replicas says."""
    patch.setattr(Partition, "min_insync_replicas", property(lambda self: 1))


def whoever_lives_is_elected(patch: Patch) -> None:
    """If no replica in sync is alive, any other replica becomes the leader."""
    offline = election.offline

    def allowed(assigned: Any, isr: Any, live: Any, unclean_allowed: bool = False, *more: Any) -> Any:
        return offline(assigned, isr, live, True, *more)

    patch.setattr(election, "offline", allowed)


def truncation_to_the_high_watermark(patch: Patch) -> None:
    """A follower of a new leader drops everything above its own high watermark, as before KIP-101."""
    add = FetcherState.add

    def cut_first(self: FetcherState, tp: TopicPartition, topic_id: bytes, leader_epoch: int, log: Any) -> None:
        known = self.partitions.get(tp)
        if known is None or known.leader_epoch != leader_epoch:
            log.truncate_to(log.high_watermark, 0)
        add(self, tp, topic_id, leader_epoch, log)

    patch.setattr(FetcherState, "add", cut_first)


def the_end_of_an_epoch_is_enough(patch: Patch) -> None:
    """Leader and follower compare where an epoch ends, and not which epoch it is, as in KIP-101 before KIP-279."""
    diverging_epoch = follower_fetch.diverging_epoch

    def by_its_end(log: Log, fetch: FetchPartition) -> EpochEndOffset | None:
        found = diverging_epoch(log, fetch)
        return found if found is not None and found.end_offset < fetch.fetch_offset else None

    def to_its_end(self: FetcherState, tp: TopicPartition, known: Any, end: EpochEndOffset, log: Any) -> Truncate:
        return Truncate(tp, min(end.end_offset, log.log_end_offset))

    patch.setattr(follower_fetch, "diverging_epoch", by_its_end)
    patch.setattr(FetcherState, "_truncation", to_its_end)


def any_server_will_do(patch: Patch) -> None:
    """A client connects to a ZooKeeper server whose last transaction is older than one that it has seen."""
    patch.setattr(Server, "has_seen", lambda self, zxid: True)
