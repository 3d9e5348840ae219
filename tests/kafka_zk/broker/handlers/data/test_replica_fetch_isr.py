"""Followers' fetches and the ISR: who joins it, who leaves it, and what producers and consumers see in between."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_zk.broker.metrics.collector import BrokerCollector
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.replica.alter_partition_manager import Answer
from kafka_zk.broker.replica.isr_state import Committed, WrittenIsr
from kafka_zk.network.connection_rates import ConnectionRates
from kafka_zk.protocol import uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchResponse
from tests.kafka_zk.broker.conftest import batch, update_metadata
from tests.kafka_zk.broker.handlers.data.replicating_leader import Leader, Make, T, make
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import produce, produced

__all__ = ["make"]  # a fixture


def test_a_follower_that_caught_up_joins_and_holds_the_watermark_from_then_on(make: Make) -> None:
    leader = make(isr=[0, 1])
    leader.append(b"a")
    leader.fetch(1, 1)
    assert leader.high_watermark == 1
    leader.fetch(0, 2)
    assert not leader.asked.changes
    leader.fetch(1, 2)
    leader.append(b"b")
    leader.fetch(2, 1)
    assert leader.high_watermark == 1
    assert leader.asked.answer().isr == (0, 1, 2)
    assert (leader.partition.isr, leader.partition.partition_epoch) == ([0, 1, 2], 1)
    leader.fetch(2, 2)
    assert leader.high_watermark == 2


def test_a_follower_that_could_not_join_joins_with_its_next_fetch(make: Make) -> None:
    """The partition has not changed since then: its leader had another proposal in flight, or believed the follower
    dead.
    """
    leader = make(isr=[0])
    session = leader.fetch_all(0, 2, session_epoch=0).session_id
    leader.asked.answer(ErrorCode.INELIGIBLE_REPLICA)
    leader.dead.add(2)
    leader.fetch_all(0, 2, session_id=session, session_epoch=1, topics=[])
    leader.dead.clear()
    leader.fetch(0, 1)
    leader.fetch_all(0, 2, session_id=session, session_epoch=2, topics=[])
    assert leader.asked.answer().isr == (0, 1)
    leader.fetch_all(0, 2, session_id=session, session_epoch=3, topics=[])
    assert leader.asked.answer().isr == (0, 1, 2)


def test_the_watermark_advances_when_a_shrunk_isr_is_written_and_not_before(make: Make) -> None:
    leader = make(replicas=[0, 1], isr=[0, 1])
    waiting: list[Any] = []
    leader.broker.start(ApiKey.PRODUCE, 9, produce(batch(b"a"))).addCallback(waiting.append)
    leader.pass_time(900)
    leader.partition.remotes.followers[1].last_caught_up_ms -= 60_000
    leader.shrink()
    leader.shrink()
    assert len(leader.asked.changes) == 1 and leader.high_watermark == 0 and not waiting
    leader.asked.answer()
    assert leader.high_watermark == 1 and len(waiting) == 1


def test_what_a_follower_told_in_an_epoch_before_its_leader_heard_of_it_counts_with_its_next_fetch(make: Make) -> None:
    """Otherwise, the watermark would stand still until the partition's periodic check, seconds later."""
    leader = make(replicas=[0, 1, 2], isr=[0, 1])
    leader.append(b"a")
    session = leader.fetch_all(0, session_epoch=0).session_id
    answered: list[FetchResponse] = []
    told = {"session_id": session, "current_leader_epoch": 5, "last_fetched_epoch": 4}
    leader.send(1, **told, session_epoch=1, max_wait_ms=500).addCallback(answered.append)
    assert not answered and leader.high_watermark == 0
    leader.broker.lead_again("t", leader.topic_id, replicas=[0, 1, 2], isr=[0, 1], leader_epoch=5)
    assert len(answered) == 1
    leader.fetch_all(1, session_id=session, session_epoch=2, topics=[])
    assert leader.high_watermark == 1


def test_so_does_where_a_followers_log_begins(make: Make) -> None:
    """A deletion of records waits for it."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.append(b"a")
    session = leader.fetch_all(0, session_epoch=0).session_id
    leader.fetch_all(1, session_id=session, session_epoch=1, last_fetched_epoch=4)
    assert leader.high_watermark == 1
    leader.partition.log.increment_log_start_offset(1)
    answered: list[FetchResponse] = []
    told = {"session_id": session, "current_leader_epoch": 5, "last_fetched_epoch": 4, "log_start_offset": 1}
    leader.send(1, **told, session_epoch=2, max_wait_ms=500).addCallback(answered.append)
    leader.broker.lead_again("t", leader.topic_id, replicas=[0, 1], isr=[0, 1], leader_epoch=5)
    assert len(answered) == 1 and leader.partition.low_watermark == 0
    leader.fetch_all(1, session_id=session, session_epoch=3, topics=[])
    assert leader.partition.low_watermark == 1


@pytest.mark.parametrize("metadata_come_first", [True, False])
def test_nobody_waits_for_a_follower_that_stopped_while_it_joined(make: Make, metadata_come_first: bool) -> None:
    """A broker that stops cleanly follows the new leaders for a moment, so it has all their records, and then it is
    gone. The leaders learn this from the controller's refusal, because UpdateMetadata follows the end of the broker's
    registration, perhaps seconds later.
    """
    leader = make(isr=[0, 1])
    leader.append(b"a")
    leader.fetch(1, 2)
    waiting: list[Any] = []
    leader.broker.start(ApiKey.PRODUCE, 9, produce(batch(b"b"))).addCallback(waiting.append)
    leader.fetch(2, 1)
    services = leader.broker.services

    if metadata_come_first:
        leader.dead.add(2)
        services.metadata.brokers[2] = services.metadata.brokers[0]  # the broker was alive until now
        fields = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0]}
        leader.broker.ask(ApiKey.UPDATE_METADATA, 8, update_metadata("u", uuids.random_topic_id(), 1, fields))
    assert leader.high_watermark < 2 and not waiting
    leader.asked.answer(ErrorCode.INELIGIBLE_REPLICA)
    assert leader.high_watermark == 2
    assert [answer.responses[0].partition_responses[0].error_code for answer in waiting] == [ErrorCode.NONE]


def test_below_min_insync_replicas_nothing_is_shown_or_acknowledged(make: Make) -> None:
    """KIP-966: records on a single broker would be lost with it."""
    leader = make(isr=[0])
    leader.broker.configs.topics["t"] = {"min.insync.replicas": "2"}
    list(leader.broker.services.replicas.update_topic_configs({"t": {"min.insync.replicas": "2"}}))
    leader.append(b"a")
    assert leader.high_watermark == 0
    assert produced(leader.broker, produce(batch(b"b"))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    leader.fetch(1, 1)
    assert leader.high_watermark == 0
    leader.asked.answer()
    assert leader.high_watermark == 1


def test_who_waits_when_the_isr_shrinks_below_the_minimum_waits_until_time_is_up(make: Make) -> None:
    leader = make(replicas=[0, 1, 2], isr=[0, 1])
    list(leader.broker.services.replicas.update_topic_configs({"t": {"min.insync.replicas": "2"}}))
    waiting: list[Any] = []
    leader.broker.start(ApiKey.PRODUCE, 9, produce(batch(b"a"))).addCallback(waiting.append)
    leader.partition.remotes.followers[1].last_caught_up_ms -= 60_000
    leader.shrink()
    leader.asked.answer()
    assert not waiting  # below the minimum the watermark stands still; the produce times out
    leader.pass_time(1_000)
    assert waiting[0].responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    "late", [WrittenIsr(4, (0, 1, 2), 1), ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NOT_CONTROLLER], ids=repr
)
def test_a_controller_that_decides_otherwise_ends_a_pending_change(make: Make, late: Answer) -> None:
    """The response to the pending change is late and has no effect."""
    leader = make(isr=[0, 1])
    leader.fetch(0, 2)
    [(_, answered)] = leader.asked.changes
    assert leader.broker.lead_again("t", leader.topic_id, leader_epoch=5, replicas=[0, 1, 2], isr=[0]) == 0
    answered(late)
    assert leader.partition.isr == [0] and leader.partition.remotes.state == Committed((0,))
    leader.fetch(0, 2, current_leader_epoch=5)
    assert [change.isr for change, _ in leader.asked.changes] == [(0, 1, 2), (0, 2)]


@pytest.mark.parametrize(
    ("code", "asked_again", "asks_later"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, 0, True),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, 0, True),
        (ErrorCode.INVALID_UPDATE_VERSION, 0, False),
        (ErrorCode.UNKNOWN_TOPIC_ID, 0, False),
        (ErrorCode.NOT_CONTROLLER, 1, False),
    ],
)
def test_a_refused_change_ends_as_its_error_says(
    make: Make, code: ErrorCode, asked_again: int, asks_later: bool
) -> None:
    """Depending on the error the leader reverts the change, gives up until the next LeaderAndIsr, or proposes it again.
    """
    leader = make(isr=[0, 1])
    leader.fetch(0, 2)
    leader.asked.answer(code)
    assert len(leader.asked.changes) == asked_again
    leader.fetch(0, 2)
    assert len(leader.asked.changes) == asked_again + asks_later
    assert leader.partition.isr == [0, 1]


def test_a_partition_that_is_led_no_more_asks_for_nothing(make: Make) -> None:
    leader = make(isr=[0, 1])
    leader.fetch(0, 2)
    partition = leader.partition
    leader.broker.services.replicas.stop_replica(T, -1, delete=False)
    leader.asked.answer(ErrorCode.NOT_CONTROLLER)
    assert not leader.asked.changes and partition.isr == [0, 1]


def test_metrics_show_what_followers_lack_and_what_became_of_the_isr(make: Make) -> None:
    """A follower's lag is unknown until its first fetch."""
    leader = make(isr=[0, 1])
    leader.append(b"a", b"b")
    leader.fetch(1, 1)
    values = metrics(leader)
    assert values["kafka_zk_replicalag", "1"] == 1 and ("kafka_zk_replicalag", "2") not in values
    leader.fetch(2, 2)
    assert leader.asked.answer().isr == (0, 1, 2)
    name = "kafka_server_replicamanager_"
    values = metrics(leader)
    assert (values[name + "isrexpands_total", ""], values[name + "underreplicatedpartitions", ""]) == (1, 0)


def metrics(leader: Leader) -> dict[tuple[str, str], float]:
    """Values by metric name and replica."""
    fetchers = SimpleNamespace(max_lag=0, failed_count=0)
    broker = SimpleNamespace(
        services=leader.broker.services, log_cleaner=None, replica_fetchers=fetchers, tls=None, logins={},
        connection_rates=ConnectionRates(),
    )  # fmt: skip
    client = SimpleNamespace(add_session_listener=lambda listener: None)
    collector = BrokerCollector(broker, client, RequestStats())
    samples = [sample for family in collector._replicas() for sample in family.samples]
    return {(sample.name, sample.labels.get("replica", "")): sample.value for sample in samples}
