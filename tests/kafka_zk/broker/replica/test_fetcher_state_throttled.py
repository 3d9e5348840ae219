"""A follower over its quota requests all partitions except the throttled ones that lag."""

from pathlib import Path

import pytest

from kafka_zk.base.rate import QuotaWindow
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.fetcher_effects import Append
from kafka_zk.broker.replica.fetcher_state import FetcherState
from kafka_zk.broker.replica.replication_quota import ReplicationQuota
from kafka_zk.protocol.fetch import FetchedPartition
from tests.kafka_zk.broker.replica.test_fetcher_state import ModelLog, T, asked_for

OTHER = TopicPartition("other", 0)
WINDOW = QuotaWindow(2, 1000)
BACKOFF_S = 1.0


@pytest.fixture
def quota() -> ReplicationQuota:
    quota = ReplicationQuota(WINDOW)
    quota.configure(100, WINDOW)
    quota.set_throttled(T, 1, ("*",))
    return quota


@pytest.fixture
def log(tmp_path: Path) -> ModelLog:
    return ModelLog(tmp_path / "epochs", [0] * 5, high_watermark=5)


def following(quota: ReplicationQuota, log: ModelLog) -> FetcherState:
    state = FetcherState(17, asks_for_epochs=False, max_bytes=100, backoff_s=BACKOFF_S, quota=quota)
    state.add(T, bytes(15) + b"1", 3, log)
    state.add(OTHER, bytes(15) + b"2", 3, log)
    state.wake(0)
    assert asked_for(state) == [T, OTHER]
    return state


def answer(state: FetcherState, tp: TopicPartition, log: ModelLog, size_bytes: int, high_watermark: int) -> None:
    """The leader sends one record of this size."""
    fetched = FetchedPartition(0, 0, high_watermark, -1, 0, memoryview(bytes(size_bytes)))
    effect = state.answered(tp, fetched, log, 0)
    assert isinstance(effect, Append)
    log.append(0)
    state.appended(effect, log)


def test_who_lags_waits_until_the_rate_has_fallen(quota: ReplicationQuota, log: ModelLog) -> None:
    state = following(quota, log)
    answer(state, T, log, 500, 90)
    assert state.wake(0) == BACKOFF_S
    assert asked_for(state) == [OTHER]
    assert state.wake(1.9) == 2.9
    assert state.wake(2.0) is None
    assert asked_for(state) == [OTHER, T]


def test_who_is_in_sync_is_never_held_back(quota: ReplicationQuota, log: ModelLog) -> None:
    """The bytes that an in-sync follower fetches still count."""
    state = following(quota, log)
    answer(state, T, log, 500, 6)
    assert quota.is_exceeded(0)
    assert state.wake(0) is None
    assert asked_for(state) == [OTHER, T]


def test_who_has_not_been_answered_yet_may_lag(quota: ReplicationQuota, log: ModelLog) -> None:
    quota.record(500, 0)
    state = FetcherState(17, asks_for_epochs=False, max_bytes=100, backoff_s=BACKOFF_S, quota=quota)
    state.add(T, bytes(15) + b"1", 3, log)
    assert state.wake(0) == BACKOFF_S
    assert not state.has_work


def test_other_partitions_do_not_count(quota: ReplicationQuota, log: ModelLog) -> None:
    state = following(quota, log)
    answer(state, OTHER, log, 500, 90)
    assert not quota.is_exceeded(0)
    assert state.wake(0) is None


def test_a_throttle_that_is_lifted_lets_all_go_on(quota: ReplicationQuota, log: ModelLog) -> None:
    """The throttle ends with the rate, or with the topic's list."""
    state = following(quota, log)
    answer(state, T, log, 500, 90)
    state.wake(0)
    quota.set_throttled(T, 1, ())
    assert state.wake(0) is None
    assert asked_for(state) == [OTHER, T]
    quota.set_throttled(T, 1, ("*",))
    state.wake(0)
    assert asked_for(state) == [OTHER]
    quota.configure(None, WINDOW)
    assert state.wake(0) is None
    assert asked_for(state) == [OTHER, T]


def test_a_partition_that_is_followed_no_more_is_forgotten(quota: ReplicationQuota, log: ModelLog) -> None:
    state = following(quota, log)
    answer(state, T, log, 500, 90)
    state.wake(0)
    state.remove(T)
    assert state.wake(5) is None
