"""Offsets from each leader that can be reached, and errors for the other partitions."""

from typing import Any

from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.admin import Admin
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.connection.list_offsets import EARLIEST, EARLIEST_LOCAL, ListedOffset
from kafka_zk.clients.connection.waiting import run
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, finish

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
FOUND = ListedOffset(0, -1, 0)


def tried(brokers: FakeCluster, spec: int = EARLIEST) -> tuple[dict[TopicPartition, Any], float]:
    """For each partition the error code, or the result; and the seconds it took."""
    admin = Admin(brokers.clock, bootstrap_servers="b0:9092", connect=brokers.connect)
    finish(brokers.clock, run(admin.describe_cluster()))
    began_s = brokers.clock.seconds()
    found = finish(brokers.clock, run(admin.try_offsets(dict.fromkeys((T0, T1, T2), spec))))
    codes = {tp: each.code if isinstance(each, BrokerError) else each for tp, each in found.items()}
    return codes, brokers.clock.seconds() - began_s


def test_partition_without_leader_does_not_delay_the_others() -> None:
    """One partition has no leader in the metadata, another one's leader cannot be reached."""
    brokers = FakeCluster(Clock(), {"t": [0, -1, 1]})
    assert tried(brokers) == ({T0: FOUND, T1: ErrorCode.LEADER_NOT_AVAILABLE, T2: FOUND}, 0.002)
    brokers = FakeCluster(Clock(), {"t": [0, 0, 1]})
    brokers.unreachable.add(1)
    assert tried(brokers)[0] == {T0: FOUND, T1: FOUND, T2: ErrorCode.NETWORK_EXCEPTION}


def test_error_of_a_broker_is_that_of_its_partitions() -> None:
    """One leader refuses the request, or is too old for the first local offset."""
    brokers = FakeCluster(Clock(), {"t": [0, 1, 1]}, errors=[(2, ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert tried(brokers)[0] == {T0: refused, T1: FOUND, T2: FOUND}
    brokers = FakeCluster(Clock(), {"t": [0, 1, 1]})
    assert set(tried(brokers, EARLIEST_LOCAL)[0].values()) == {ErrorCode.UNSUPPORTED_VERSION}
