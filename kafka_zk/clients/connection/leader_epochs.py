"""The leader epochs of partitions, read from their leaders (OffsetForLeaderEpoch, KIP-320).

A leader returns the end offset of an epoch, which is the start offset of the next epoch. So the client asks for one
epoch at a time, from the newest to the oldest.
Source: LeaderEpochFileCache.java#endOffsetFor@3.9.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from twisted.internet.defer import gatherResults

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import broker_error
from kafka_zk.clients.connection.waiting import run
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

_MAX_EPOCHS = 10_000
_CONSUMER = -1
_Request = codec.request(ApiKey.OFFSET_FOR_LEADER_EPOCH)
_Topic = _Request.OffsetForLeaderTopic
_Partition = _Topic.OffsetForLeaderPartition


class LeaderEpochs(NamedTuple):
    """``entries``: (epoch, its start offset), ascending. ``problem``: why the epochs are unknown, in which case
    ``entries`` is empty.
    """

    entries: tuple[tuple[int, int], ...]
    problem: str | None = None


class _Walk:
    """The epochs of one partition that are known so far, newest first. ``wanted``: the next epoch to ask for."""

    def __init__(self, newest: int, until_offset: int) -> None:
        self.wanted = newest
        self._until_offset = until_offset
        self._entries: list[tuple[int, int]] = []
        self._epoch: int | None = None
        self.result: LeaderEpochs | None = None

    def fail(self, problem: str) -> None:
        self.result = LeaderEpochs((), problem)

    def answered(self, epoch: int, end_offset: int) -> None:
        """``epoch``: the log's largest epoch up to ``wanted``; ``wanted`` itself if all its epochs are later."""
        if self._epoch is None:
            if epoch < 0 or end_offset < 0:
                return self.fail("its leader has no leader epochs")
        elif self._entries and end_offset >= self._entries[-1][1]:
            return self._end()
        else:
            self._entries.append((self._epoch, max(end_offset, 0)))
            if end_offset <= self._until_offset:
                return self._end()
        self._epoch, self.wanted = epoch, epoch - 1
        if self.wanted < 0:
            self._entries.append((epoch, 0))
            return self._end()
        if len(self._entries) > _MAX_EPOCHS:
            self.fail(f"its log has more than {_MAX_EPOCHS} leader epochs")
        return None

    def _end(self) -> None:
        self.result = LeaderEpochs(tuple(reversed(self._entries)))


async def leader_epochs(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, LeaderEpochs]:
    """Walk back to the epoch of the offset ``wanted[tp]``. A failure becomes the result of its partitions."""
    walks = {tp: _Walk(cluster.metadata.leader_epoch(tp), offset) for tp, offset in wanted.items()}
    while open_ := {tp: walk for tp, walk in walks.items() if walk.result is None}:
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp, walk in open_.items():
            leader = cluster.metadata.leader_id(tp)
            if leader is None or walk.wanted < 0:
                walk.fail("it has no leader")
            else:
                by_leader.setdefault(leader, []).append(tp)
        await gatherResults([run(_ask(cluster, node_id, tps, walks)) for node_id, tps in sorted(by_leader.items())])
    return {tp: walk.result for tp, walk in walks.items() if walk.result is not None}


async def _ask(
    cluster: Cluster, node_id: int, tps: Sequence[TopicPartition], walks: Mapping[TopicPartition, _Walk]
) -> None:
    topics = [
        _Topic(
            topic=name,
            partitions=[
                _Partition(partition=each, leader_epoch=walks[TopicPartition(name, each)].wanted) for each in partitions
            ],
        )
        for name, partitions in partitions_by_topic(tps).items()
    ]
    try:
        message = _Request(replica_id=_CONSUMER, topics=topics)
        response = await cluster.request(node_id, ApiKey.OFFSET_FOR_LEADER_EPOCH, message)
    except Exception as error:
        for tp in tps:
            walks[tp].fail(f"broker {node_id} does not answer: {error}")
        return
    unanswered = set(tps)
    for topic in response.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.topic, each.partition)
            if tp in unanswered:
                unanswered.remove(tp)
                _take(walks[tp], each)
    for tp in unanswered:
        walks[tp].fail(f"broker {node_id} does not return its leader epochs")


def _take(walk: _Walk, answer: Any) -> None:
    if answer.error_code != ErrorCode.NONE:
        walk.fail(str(broker_error(answer.error_code, "leader epochs")))
    else:
        walk.answered(answer.leader_epoch, answer.end_offset)
