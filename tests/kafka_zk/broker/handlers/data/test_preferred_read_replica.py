"""KIP-392: a leader names the replica in the consumer's rack, and followers serve consumers."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.broker.config.kafka_config import RACK_AWARE_SELECTOR, InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.metadata.cache import AliveBroker, BrokerEndPoint
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition, FetchResponse
from tests.kafka_zk.broker.conftest import Harness, batch
from tests.kafka_zk.broker.handlers.data.replicating_leader import Leader, T, size

CONSUMER = -1
LISTENER = "PLAINTEXT"


class Racks(Leader):
    """Broker 0 in rack a leads; followers 1 in rack b and 2 in rack c are in sync. Five records are committed."""

    def __init__(self, broker: Harness) -> None:
        super().__init__(broker)
        for broker_id, rack in enumerate("abc"):
            self.move(broker_id, rack)
        self.append(*[b"x"] * 5)
        self.catch_up(1)
        self.catch_up(2)

    def move(self, broker_id: int, rack: str | None, listener: str = LISTENER) -> None:
        endpoints = {listener: BrokerEndPoint("h", 9092)}
        self.broker.services.metadata.brokers[broker_id] = AliveBroker(broker_id, endpoints, rack)

    def catch_up(self, follower: int, offset: int = 5, **fields: Any) -> None:
        super().fetch(offset, follower, **fields)

    def consume(self, offset: int, rack: str, version: int = 17, **fields: Any) -> FetchedPartition:
        return self.fetch(offset, CONSUMER, version, rack_id=rack, replica_epoch=-1, **fields)


@pytest.fixture
def leader(harness: Callable[..., Harness]) -> Racks:
    return Racks(harness(replica_selector_class=RACK_AWARE_SELECTOR))


def test_a_consumer_is_sent_to_the_replica_in_its_rack(leader: Racks) -> None:
    """The response has the bounds of the log and no records."""
    told = leader.consume(0, "b")
    assert (told.preferred_read_replica, told.error_code, size(told)) == (1, 0, 0)
    assert (told.high_watermark, told.log_start_offset) == (5, 0)
    assert leader.consume(5, "c").preferred_read_replica == 2


@pytest.mark.parametrize("rack", ["a", "", "elsewhere"])
def test_who_is_as_close_to_the_leader_as_to_anybody_gets_records(leader: Racks, rack: str) -> None:
    told = leader.consume(0, rack)
    assert told.preferred_read_replica == -1 and size(told)


def test_who_wants_to_wait_is_sent_away_at_once(leader: Racks) -> None:
    answers: list[FetchResponse] = []
    leader.send(5, CONSUMER, 17, rack_id="b", replica_epoch=-1, max_wait_ms=500).addCallback(answers.append)
    assert [answer.topics[0].partitions[0].preferred_read_replica for answer in answers] == [1]


def test_a_session_is_told_again_and_again(leader: Racks) -> None:
    """A consumer returns to the leader when its preferred read replica has expired, although nothing else in the
    session has changed.
    """
    first = leader.fetch_all(0, CONSUMER, rack_id="b", replica_epoch=-1, session_epoch=0)
    again = leader.fetch_all(
        0, CONSUMER, rack_id="b", replica_epoch=-1, session_epoch=1, session_id=first.session_id, topics=[]
    )
    assert again.topics[0].partitions[0].preferred_read_replica == 1


def test_only_replicas_in_sync_that_have_the_offset_are_named(leader: Racks) -> None:
    leader.append(b"y")
    assert leader.consume(6, "b").preferred_read_replica == -1, "it has not fetched offset 5 yet"
    assert leader.consume(5, "b").preferred_read_replica == 1
    leader.catch_up(1, log_start_offset=2)
    assert leader.consume(1, "b").preferred_read_replica == -1
    leader.partition.isr = [0, 2]
    assert leader.consume(5, "b").preferred_read_replica == -1
    assert leader.consume(5, "c").preferred_read_replica == 2


def test_a_broker_that_is_gone_or_has_no_such_listener_is_not_named(leader: Racks) -> None:
    leader.move(1, "b", "INTERNAL")
    assert leader.consume(0, "b").preferred_read_replica == -1
    del leader.broker.services.metadata.brokers[2]
    assert leader.consume(0, "c").preferred_read_replica == -1


def test_epochs_are_checked_before_anybody_is_named(leader: Racks) -> None:
    assert leader.consume(0, "b", current_leader_epoch=3).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert leader.consume(0, "b", current_leader_epoch=5).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_without_a_selector_everybody_reads_from_the_leader(harness: Callable[..., Harness]) -> None:
    told = Racks(harness()).consume(0, "b")
    assert told.preferred_read_replica == -1 and size(told)


def test_followers_and_old_versions_are_not_sent_away(leader: Racks) -> None:
    assert leader.fetch(0, 1, rack_id="b").preferred_read_replica == -1
    assert leader.consume(0, "b", 10).preferred_read_replica == -1


def test_an_unknown_selector_is_refused() -> None:
    with pytest.raises(InvalidBrokerConfig, match=r"^replica\.selector\.class=my\.Selector: must be org"):
        KafkaConfig({"zookeeper.connect": "z:1", "log.dirs": "/d", "replica.selector.class": "my.Selector"})


# -- at a follower ----------------------------------------------------------------------------------------------------


class Follower(Leader):
    """Broker 0 follows broker 1; it has five records, knows that four are committed, and has deleted the first."""

    def __init__(self, broker: Harness) -> None:
        super().__init__(broker, leader=1, replicas=[0, 1], isr=[0, 1])
        for offset in range(5):
            records = bytearray(batch(b"x"))
            records[:8] = offset.to_bytes(8, "big")
            self.partition.log.append_as_follower(memoryview(records), now_ms=1)
        self.told(4)
        self.partition.log.increment_log_start_offset(1)

    def told(self, high_watermark: int) -> None:
        """The leader's high watermark, as the replica fetcher takes it over."""
        self.partition.take_leader_high_watermark(high_watermark)
        self.broker.services.fetch_purgatory.check(T)

    def consume(self, offset: int, version: int = 17, **fields: Any) -> FetchedPartition:
        return self.fetch(offset, CONSUMER, version, replica_epoch=-1, **fields)


@pytest.fixture
def follower(harness: Callable[..., Harness]) -> Follower:
    return Follower(harness())


@pytest.mark.parametrize("version", [11, 12, 17])
def test_a_follower_serves_what_it_knows_as_committed(follower: Follower, version: int) -> None:
    """This holds with and without a replica selector."""
    told = follower.consume(1, version)
    assert (told.error_code, told.high_watermark, told.log_start_offset) == (0, 4, 1)
    assert size(told) == 3 * len(batch(b"x"))
    assert (follower.consume(4).error_code, size(follower.consume(4))) == (0, 0)
    assert (follower.consume(5).error_code, size(follower.consume(5))) == (0, 0)


@pytest.mark.parametrize("version", [4, 10])
def test_old_consumers_are_sent_to_the_leader(follower: Follower, version: int) -> None:
    assert follower.consume(1, version).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_a_follower_does_not_have_is_out_of_range(follower: Follower) -> None:
    """The consumer then fetches from the leader."""
    assert follower.consume(0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert follower.consume(6).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_checks_epochs(follower: Follower) -> None:
    assert follower.consume(1, current_leader_epoch=3).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert follower.consume(1, current_leader_epoch=5).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert follower.consume(1, current_leader_epoch=-1).error_code == 0


@pytest.mark.parametrize("min_bytes", [1, 2])
def test_a_new_watermark_wakes_who_waits_at_a_follower(follower: Follower, min_bytes: int) -> None:
    answers: list[FetchResponse] = []
    follower.send(4, CONSUMER, 17, replica_epoch=-1, max_wait_ms=500, min_bytes=min_bytes).addCallback(answers.append)
    assert not answers
    follower.told(5)
    assert [size(answer.topics[0].partitions[0]) > 0 for answer in answers] == [True]


def test_a_follower_answers_no_follower_and_no_other_question(follower: Follower) -> None:
    assert follower.fetch(1, 1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    request = codec.request(ApiKey.LIST_OFFSETS)
    asked = request.ListOffsetsTopic(
        name="t",
        partitions=[
            request.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        ],
    )
    answer = follower.broker.ask(ApiKey.LIST_OFFSETS, 5, request(replica_id=-1, isolation_level=0, topics=[asked]))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
