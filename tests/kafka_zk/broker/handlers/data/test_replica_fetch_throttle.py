"""A leader over its quota sends nothing to throttled followers that are out of sync, and everything to all others."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest

from kafka_zk.broker.metrics.collector import BrokerCollector
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.security.login_stats import LoginStats
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.network.connection_rates import ConnectionRates
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch import FetchResponse
from tests.kafka_zk.broker.conftest import Harness
from tests.kafka_zk.broker.handlers.data.replicating_leader import VERSION, Leader, T, size
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched
from tests.kafka_zk.broker.process.test_live_config import announce

LEADER_REPLICAS = "leader.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
VALUE = bytes(1000)


class Throttled(Leader):
    """Follower 1 is in sync, follower 2 is not; the quota is one record a second."""

    def __init__(self, broker: Harness) -> None:
        super().__init__(broker, isr=[0, 1])
        self.limit("1200")

    def limit(self, rate: str | None, replicas: str = "*") -> None:
        configs = self.broker.configs
        configs.topics["t"] = {LEADER_REPLICAS: replicas}
        configs.brokers["0"] = {} if rate is None else {LEADER_RATE: rate}
        announce(self.broker, ConnectionQuotas(), "topics", "t")
        announce(self.broker, ConnectionQuotas(), "brokers", "0")

    def reads(self, follower: int) -> bool:
        return size(self.fetch(0, follower)) > 0


@pytest.fixture
def leader(harness: Callable[..., Harness]) -> Throttled:
    leader = Throttled(harness())
    leader.append(VALUE, VALUE)
    return leader


def test_a_follower_out_of_sync_waits_until_the_rate_has_fallen(leader: Throttled) -> None:
    """The first response may exceed the rate; the window has 11 samples of one second."""
    assert leader.reads(2)
    assert not leader.reads(2)
    leader.pass_time(1500)
    assert not leader.reads(2)
    leader.pass_time(500)
    assert leader.reads(2)


def test_a_follower_in_sync_is_not_held_back_but_counts(leader: Throttled) -> None:
    assert leader.reads(1) and leader.reads(1)
    assert not leader.reads(2)


def test_consumers_are_not_throttled(leader: Throttled) -> None:
    leader.fetch(2, 1)
    assert leader.reads(2) and not leader.reads(2)
    assert fetched(leader.broker.ask(ApiKey.FETCH, 11, fetch(0))).records


@pytest.mark.parametrize(("rate", "replicas"), [(None, "*"), ("1", "0:1,1:0"), ("1", "")])
def test_without_a_rate_or_a_place_on_the_list_nobody_waits(leader: Throttled, rate: str, replicas: str) -> None:
    assert leader.reads(2)
    leader.limit(rate, replicas)
    assert leader.reads(2)


def test_a_list_may_name_partition_and_broker(leader: Throttled) -> None:
    leader.limit("1", "1:0,0:0")
    assert leader.reads(2)
    assert not leader.reads(2)


def test_what_a_held_back_follower_has_is_still_known(leader: Throttled) -> None:
    """The leader knows it from the follower's fetch, even if the response is empty."""
    leader.reads(2)
    leader.fetch(1, 2)
    assert leader.partition.remotes.followers[2].log_end_offset == 1


def test_a_held_back_follower_waits_and_is_not_woken_by_an_append(leader: Throttled) -> None:
    leader.reads(2)
    answers: list[FetchResponse] = []
    leader.send(0, 2, VERSION, max_wait_ms=500).addCallback(answers.append)
    leader.append(VALUE)
    assert not answers
    leader.pass_time(500)
    [answer] = answers
    assert not answer.topics[0].partitions[0].records


def test_a_partition_that_goes_takes_its_throttle_along(leader: Throttled) -> None:
    quotas = leader.broker.services.replicas.quotas
    assert quotas.leader.throttled == {T}
    leader.broker.services.replicas.stop_replica(T, -2, delete=True)
    assert not quotas.leader.throttled


def test_metrics_show_rates_and_replication_apart_from_clients(leader: Throttled) -> None:
    """``bytesout`` counts the bytes sent to clients, as in Kafka."""
    broker = leader.broker

    class Running:
        services = broker.services
        log_cleaner = None
        tls = None
        logins: Mapping[str, LoginStats] = MappingProxyType({})
        connection_rates = ConnectionRates()

        class replica_fetchers:
            bytes_in = 7
            max_lag = 0

    class Client:
        state = None

        def add_session_listener(self, listener: object) -> None: ...

    stats = RequestStats()
    collector = BrokerCollector(Running, Client(), stats)
    leader.fetch(0, 1)
    stats.fetched_bytes = broker.services.replicas.replication_bytes_out + 5
    metrics = {metric.name: metric.samples[0].value for metric in [*collector._topics()]}
    assert metrics["kafka_server_brokertopicmetrics_replicationbytesout"] > 2000
    assert metrics["kafka_server_brokertopicmetrics_replicationbytesin"] == 7
    assert metrics["kafka_server_brokertopicmetrics_bytesout"] == 5
    assert metrics["kafka_server_leaderreplication_byte_rate"] > 2000
    assert metrics["kafka_server_followerreplication_byte_rate"] == 0
