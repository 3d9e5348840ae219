"""Each append of a request is decided once, and only when its own partition changes."""

from typing import Any

from kafka_zk.base.types import LogAppendInfo, TopicPartition
from kafka_zk.broker.replica.delayed_produce import DelayedProduce, PassedWait, ReplicationWait, Unreplicated
from kafka_zk.protocol.errors import ApiError, ErrorCode

T, U = TopicPartition("t", 0), TopicPartition("u", 0)


class Replicas:
    """A partition whose high watermark or error the test sets."""

    high_watermark = 0
    error: ErrorCode | None = None
    asked = 0

    def has_committed(self, last_offset: int, terms_ended: int) -> bool:
        self.asked += 1
        if self.error is not None:
            raise ApiError(self.error)
        return last_offset < self.high_watermark


def unreplicated(partition: Any, offset: int) -> Unreplicated:
    return Unreplicated(partition, LogAppendInfo(offset, offset, -1, 0, 70), 0)


def codes(delayed: DelayedProduce) -> list[Any]:
    return [result.code if isinstance(result, ApiError) else type(result).__name__ for result in delayed.results]


def test_an_append_is_decided_when_its_partition_has_it_everywhere() -> None:
    t, u = Replicas(), Replicas()
    delayed = DelayedProduce([T, U], [unreplicated(t, 3), unreplicated(u, 0)])
    assert [delayed.is_decided] == [False]
    t.high_watermark = u.high_watermark = 4
    delayed.decide(T)
    assert codes(delayed) == ["LogAppendInfo", "Unreplicated"] and u.asked == 1
    delayed.decide(U)
    assert delayed.is_decided and codes(delayed) == ["LogAppendInfo"] * 2


def test_what_is_decided_stays_so() -> None:
    t, u = Replicas(), Replicas()
    t.high_watermark = 1
    delayed = DelayedProduce([T, U], [unreplicated(t, 0), unreplicated(u, 0)])
    t.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    delayed.decide(T)
    delayed.time_out()
    assert codes(delayed) == ["LogAppendInfo", ErrorCode.REQUEST_TIMED_OUT]


def test_an_error_of_one_partition_is_no_other_one_s() -> None:
    t, u = Replicas(), Replicas()
    refused = ApiError(ErrorCode.MESSAGE_TOO_LARGE)
    delayed = DelayedProduce([T, U, T], [unreplicated(t, 0), unreplicated(u, 0), refused])
    t.error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    delayed.decide(T)
    assert codes(delayed) == [
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "Unreplicated", ErrorCode.MESSAGE_TOO_LARGE
    ]  # fmt: skip
    assert not delayed.is_decided


def test_two_batches_for_one_partition_are_decided_one_by_one() -> None:
    t = Replicas()
    delayed = DelayedProduce([T, T], [unreplicated(t, 0), unreplicated(t, 1)])
    t.high_watermark = 1
    delayed.decide(T)
    assert codes(delayed) == ["LogAppendInfo", "Unreplicated"]
    t.high_watermark = 2
    delayed.decide(T)
    assert delayed.is_decided


def test_only_a_request_to_few_partitions_lets_others_pass() -> None:
    few = DelayedProduce([T], [unreplicated(Replicas(), 0)])
    many = DelayedProduce([T] * 200, [unreplicated(Replicas(), 0)] * 200)
    assert (few.wait, many.wait) == (PassedWait, ReplicationWait)
