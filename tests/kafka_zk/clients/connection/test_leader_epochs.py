"""The leader epochs that a walk back from the newest one finds."""

from collections.abc import Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import NoBrokersAvailable
from kafka_zk.clients.connection.leader_epochs import LeaderEpochs, leader_epochs
from kafka_zk.clients.connection.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.uuids import ZERO

_Response = codec.response(ApiKey.OFFSET_FOR_LEADER_EPOCH)
_Topic = _Response.OffsetForLeaderTopicResult
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Leader:
    """A leader that responds like LeaderEpochFileCache.endOffsetFor of 3.9. ``epochs``: (epoch, start offset) of every
    log.
    """

    def __init__(self, epochs: list[tuple[int, int]], end: int, newest: int | None = None) -> None:
        self.epochs, self.end = epochs, end
        self.error_code, self.failure = ErrorCode.NONE, False
        self.request_count = 0
        epoch = epochs[-1][0] if newest is None else newest
        partitions = tuple(PartitionMetadata(number, 1, epoch, (1,), (1,), (), 0) for number in (0, 1))
        topic = TopicMetadata("t", ZERO, False, 0, partitions, (0, 1))
        self.metadata = ClusterMetadata(None, 1, {1: Node(1, "h", 1)}, {"t": topic})

    def end_of(self, wanted: int) -> tuple[int, int]:
        if self.epochs and wanted == self.epochs[-1][0]:
            return wanted, self.end
        higher = [start for epoch, start in self.epochs if epoch > wanted]
        if not higher:
            return -1, -1
        return max((epoch for epoch, _ in self.epochs if epoch <= wanted), default=wanted), higher[0]

    async def request(self, node_id: int, api_key: ApiKey, message: Any) -> Any:
        self.request_count += 1
        if self.failure:
            raise NoBrokersAvailable("gone")
        topics = []
        for topic in message.topics:
            partitions = []
            for each in topic.partitions:
                epoch, end = self.end_of(each.leader_epoch)
                partitions.append(
                    _Topic.EpochEndOffset(
                        error_code=int(self.error_code), partition=each.partition, leader_epoch=epoch, end_offset=end
                    )
                )
            topics.append(_Topic(topic=topic.topic, partitions=partitions))
        return _Response(topics=topics)

    def ask(self, **wanted: int) -> dict[TopicPartition, LeaderEpochs]:
        tps = {TopicPartition("t", int(name[1:])): offset for name, offset in wanted.items()}
        found: dict[TopicPartition, LeaderEpochs] = _run(leader_epochs(self, tps))  # type: ignore[arg-type]
        return found


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("waits, although the leader has answered")


def test_all_epochs_of_a_short_log_are_found() -> None:
    """Two partitions together need as many requests as one."""
    leader = Leader([(0, 0), (3, 10), (4, 25)], 40)
    expected = LeaderEpochs(((0, 0), (3, 10), (4, 25)))
    assert leader.ask(p0=0, p1=0) == {T0: expected, T1: expected}
    assert leader.request_count == 3


def test_walk_ends_at_the_wanted_offset() -> None:
    """Older epochs are not requested."""
    leader = Leader([(epoch, 10 * epoch) for epoch in range(100)], 1000)
    assert leader.ask(p0=975)[T0] == LeaderEpochs(((97, 970), (98, 980), (99, 990)))
    assert leader.request_count == 4


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=8), st.integers(0, 5),
    st.integers(0, 80),
)  # fmt: skip
def test_found_epochs_are_those_of_the_log(steps: list[tuple[int, int]], first: int, wanted: int) -> None:
    """Epochs may be skipped, and the log may begin later: each offset from the wanted one on has its epoch."""
    epochs, epoch, start = [], first, 0
    for epoch_step, size in steps:
        epochs.append((epoch, start))
        epoch, start = epoch + epoch_step, start + size
    found = Leader(epochs, start).ask(p0=wanted)[T0]
    assert found.problem is None

    def epoch_of(offset: int, entries: Sequence[tuple[int, int]]) -> int:
        return max((each for each, begin in entries if begin <= offset), default=entries[0][0])

    for offset in range(wanted, start):
        assert epoch_of(offset, found.entries) == epoch_of(offset, epochs)


@pytest.mark.parametrize("kind", ["error", "failure", "unknown", "no leader"])
def test_failures_are_results(kind: str) -> None:
    """A broker's error code, a lost connection, a log without epochs, and no leader."""
    leader = Leader([(0, 0)] if kind != "unknown" else [], 10, newest=-1 if kind == "no leader" else 0)
    leader.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if kind == "error" else ErrorCode.NONE
    leader.failure = kind == "failure"
    found = leader.ask(p0=0)[T0]
    assert found.entries == () and found.problem
