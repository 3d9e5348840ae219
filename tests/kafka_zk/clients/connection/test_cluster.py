"""Metadata stay fresh, connections are shared, and failures are one sentence."""

from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, gatherResults
from twisted.internet.error import ConnectionLost, ConnectionRefusedError, DNSLookupError
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.admin import Admin
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.errors import BrokerError, ClientClosed, KafkaTimeoutError, NoBrokersAvailable
from kafka_zk.clients.connection.waiting import run
from kafka_zk.network.client import RequestTimedOut
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, advance, finish

CONFIG = ClientConfig(bootstrap_servers="b0:9092,b1:9092", metadata_max_age_ms=5_000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def brokers(clock: Clock) -> FakeCluster:
    return FakeCluster(clock, {"t": [0, 1]})


@pytest.fixture
def cluster(clock: Clock, brokers: FakeCluster) -> Cluster:
    return Cluster(clock, CONFIG, connect=brokers.connect)


def test_topic_is_found_through_the_second_address(clock: Clock, brokers: FakeCluster, cluster: Cluster) -> None:
    """A bootstrap address that is down does no harm."""
    brokers.down.add(0)
    found = finish(clock, run(cluster.topic("t", 1_000)))
    assert [each.leader for each in found.partitions] == [0, 1]
    assert found.available == (1,)


def test_a_broker_that_knows_nobody_yet_is_passed_over(clock: Clock, brokers: FakeCluster) -> None:
    """The controller has just been restarted, so its metadata are empty; those of other brokers are not."""
    admin = Admin(clock, CONFIG, connect=brokers.connect)
    assert finish(clock, run(admin.list_topics())) == ["t"]
    brokers.untold.add(0)
    assert [each.leader for each in finish(clock, run(admin.describe_topics(["t"])))["t"].partitions] == [0, 1]


def test_metadata_are_empty_where_no_broker_knows_anybody(
    clock: Clock, brokers: FakeCluster, cluster: Cluster
) -> None:
    brokers.untold |= {0, 1}
    assert finish(clock, run(cluster.refresh())).nodes == {}


def test_nobody_there_is_one_sentence_naming_all_addresses(
    clock: Clock, brokers: FakeCluster, cluster: Cluster
) -> None:
    """The error lists each address and the last cause."""
    brokers.down |= {0, 1}
    with pytest.raises(NoBrokersAvailable, match=r"cannot reach any of b0:9092, b1:9092: .* refused by other side: b1"):
        finish(clock, run(cluster.refresh()))


def test_refreshes_at_the_same_time_share_one_fetch(clock: Clock, brokers: FakeCluster, cluster: Cluster) -> None:
    """A refresh during another one waits for a second fetch, which begins later and is shared by all that wait."""
    finish(clock, gatherResults([run(cluster.refresh()) for _ in range(2000)]))
    assert [key for _, key in brokers.seen].count(ApiKey.METADATA) == 2
    assert brokers.connect_count == 1


def test_missing_topic_times_out_and_says_why(clock: Clock, brokers: FakeCluster, cluster: Cluster) -> None:
    """The client looks for the topic until the timeout."""
    waiting = run(cluster.topic("missing", 1_000))
    with pytest.raises(KafkaTimeoutError, match=r"missing not in the metadata after 1000 ms.*UNKNOWN_TOPIC"):
        finish(clock, waiting)


def test_topic_created_meanwhile_is_found(clock: Clock, brokers: FakeCluster, cluster: Cluster) -> None:
    """Waiting for a topic ends when it appears."""
    waiting = run(cluster.topic("new", 5_000))
    advance(clock, 0.5)
    brokers.leaders["new"] = [1]
    assert len(finish(clock, waiting).partitions) == 1


def test_illegal_topic_fails_at_once(clock: Clock, brokers: FakeCluster, cluster: Cluster) -> None:
    """An error that waiting cannot cure is raised with its code."""
    brokers.errors.append((ApiKey.METADATA, ErrorCode.INVALID_TOPIC_EXCEPTION))
    with pytest.raises(BrokerError) as caught:
        finish(clock, run(cluster.topic("t", 1_000)))
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_metadata_are_fetched_again_when_they_are_old(clock: Clock, brokers: FakeCluster, cluster: Cluster) -> None:
    """metadata.max.age.ms detects a leader change without an error."""
    finish(clock, run(cluster.topic("t", 1_000)))
    brokers.move(TopicPartition("t", 0), 1)
    advance(clock, 5.1)
    assert cluster.metadata.leader_id(TopicPartition("t", 0)) == 1


def test_a_requested_update_goes_on_until_it_succeeds(clock: Clock, brokers: FakeCluster, cluster: Cluster) -> None:
    """The update is retried while all brokers are down, and then brings the new leader."""
    finish(clock, run(cluster.topic("t", 1_000)))
    brokers.stop(0)
    brokers.stop(1)
    brokers.move(TopicPartition("t", 0), 1)
    cluster.request_update()
    cluster.request_update()
    advance(clock, 1)
    assert cluster.metadata.leader_id(TopicPartition("t", 0)) == 0
    brokers.down.clear()
    advance(clock, 2.5)
    assert cluster.metadata.leader_id(TopicPartition("t", 0)) == 1


def test_connecting_again_is_paused_longer_and_longer(clock: Clock, brokers: FakeCluster, cluster: Cluster) -> None:
    """reconnect.backoff.ms doubles up to its maximum, so a dead broker is not hammered."""
    finish(clock, run(cluster.topic("t", 1_000)))
    brokers.stop(1)
    before = brokers.connect_count
    for _ in range(6):
        with pytest.raises(Exception, match="refused"):
            finish(clock, run(cluster.connection(1)))
    assert brokers.connect_count - before == 6
    assert clock.seconds() > 0.05 + 0.1 + 0.2 + 0.4 + 0.8


def test_one_connection_per_purpose(clock: Clock, brokers: FakeCluster, cluster: Cluster) -> None:
    """A long poll does not hold up produce requests; equal purposes share."""
    finish(clock, run(cluster.topic("t", 1_000)))
    produce, fetch, again = (
        finish(clock, run(cluster.connection(1, purpose))) for purpose in ("produce", "fetch", "produce")
    )
    assert produce is again
    assert produce is not fetch


def test_closing_fails_those_who_wait_for_a_connection(clock: Clock, brokers: FakeCluster, cluster: Cluster) -> None:
    """The waiting request fails, and no timer is left."""
    finish(clock, run(cluster.topic("t", 1_000)))
    waiting: Deferred[object] = run(cluster.connection(1, "new"))
    run(cluster.close())
    with pytest.raises(ClientClosed):
        finish(clock, waiting)
    advance(clock, 1)
    assert clock.getDelayedCalls() == []


def test_a_refused_topic_carries_the_brokers_words(clock: Clock, brokers: FakeCluster) -> None:
    """The admin client raises Kafka's code with the broker's message; the other topics of the request are created."""
    admin = Admin(clock, CONFIG, connect=brokers.connect)
    assert finish(clock, run(admin.create_topic("new", 3, 1))).partitions == 3
    with pytest.raises(BrokerError, match=r"creating topic t: TOPIC_ALREADY_EXISTS \(it is there\)"):
        finish(clock, run(admin.create_topic("t", 3, 1)))
    assert finish(clock, run(admin.list_topics())) == ["new", "t"]


def test_creating_follows_the_controller(clock: Clock, brokers: FakeCluster) -> None:
    """After NOT_CONTROLLER the client fetches the metadata and repeats the request."""
    admin = Admin(clock, CONFIG, connect=brokers.connect)
    brokers.errors.append((ApiKey.CREATE_TOPICS, ErrorCode.NOT_CONTROLLER))
    assert finish(clock, run(admin.create_topic("new", 1, 1))).name == "new"
    assert [key for _, key in brokers.seen].count(ApiKey.CREATE_TOPICS) == 2


def admin_whose_controller_fails(clock: Clock, brokers: FakeCluster, failures: list[Exception]) -> Admin:
    """An admin client whose connections to broker 0, the controller in broker 1's metadata, fail with these errors."""

    async def connect(reactor: Clock, host: str, *where: Any, **settings: Any) -> Any:
        if host == "b0" and failures:
            raise failures.pop(0)
        return await brokers.connect(reactor, host, *where, **settings)

    return Admin(clock, ClientConfig(bootstrap_servers="b1:9092"), connect=connect)


def test_a_controller_that_has_just_died_is_waited_for(clock: Clock, brokers: FakeCluster) -> None:
    """The other brokers still name the dead controller until another one is elected."""
    failures = [ConnectionRefusedError(), ConnectionLost(), RequestTimedOut(), DNSLookupError(), OSError()]
    admin = admin_whose_controller_fails(clock, brokers, failures)
    assert finish(clock, run(admin.create_topic("new", 1, 1))).name == "new"
    assert failures == []


@pytest.mark.parametrize("error", [ProtocolError("nonsense"), ApiError(ErrorCode.UNSUPPORTED_VERSION), KeyError("x")])
def test_what_does_not_pass_by_waiting_is_raised_at_once(clock: Clock, brokers: FakeCluster, error: Exception) -> None:
    failures = [error, error]
    with pytest.raises(type(error)):
        finish(clock, run(admin_whose_controller_fails(clock, brokers, failures).create_topic("new", 1, 1)))
    assert failures == [error]


def test_a_request_that_is_cancelled_tries_no_other_broker(
    clock: Clock, brokers: FakeCluster, cluster: Cluster
) -> None:
    fetch = run(cluster.refresh())
    fetch.cancel()
    with pytest.raises(CancelledError):
        finish(clock, fetch, 0.0)
    advance(clock, 1)
    assert brokers.connect_count == 1


def test_a_closed_cluster_does_not_say_that_brokers_are_missing(
    clock: Clock, brokers: FakeCluster, cluster: Cluster
) -> None:
    """NoBrokersAvailable would suggest a retry."""
    finish(clock, run(cluster.close()))
    with pytest.raises(ClientClosed):
        finish(clock, run(cluster.refresh()))
