"""Configuration changes in ZooKeeper reach the running broker's parts."""

from collections.abc import Callable

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import NoAuth
from tests.kafka_zk.broker.conftest import Harness, batch, live_config
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import produce, produced

Make = Callable[..., Harness]


def announce(broker: Harness, quotas: ConnectionQuotas, entity_type: str, name: str) -> None:
    assert ensureDeferred(live_config(broker, quotas).changed(entity_type, name)).called


def test_a_topics_change_holds_from_the_next_append_on(harness: Make) -> None:
    """The effect ends when the value is removed."""
    broker, quotas = harness(), ConnectionQuotas()
    broker.lead("t")
    broker.configs.topics["t"] = {"max.message.bytes": "100"}
    announce(broker, quotas, "topics", "t")
    assert produced(broker, produce(batch(b"x" * 200))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    broker.configs.topics["t"] = {}
    announce(broker, quotas, "topics", "t")
    assert produced(broker, produce(batch(b"x" * 200))).error_code == 0


def test_all_is_read_again_when_announcements_were_missed(harness: Make) -> None:
    """The missed announcements may concern any entity, even a topic's retention, which deletes records."""
    broker = harness()
    broker.lead("t")
    broker.configs.topics["t"] = {"max.message.bytes": "100"}
    broker.configs.brokers["0"] = {"max.connections.per.ip": "4"}
    broker.configs.clients["c"] = {"producer_byte_rate": "5"}
    quotas = ConnectionQuotas()
    assert ensureDeferred(live_config(broker, quotas).changes_missed()).called
    assert produced(broker, produce(batch(b"x" * 200))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert quotas.max_connections_per_ip == 4
    assert not broker.services.client_quotas.quotas.table.is_empty


def test_a_brokers_default_reaches_its_logs_but_not_a_topics_own_value(harness: Make) -> None:
    """The topic's own configuration wins, whatever the broker's default becomes."""
    broker, quotas = harness(), ConnectionQuotas()
    broker.configs.topics["own"] = {"max.message.bytes": "5000"}
    broker.lead("own")
    broker.lead("t")
    broker.configs.brokers["<default>"] = {"message.max.bytes": "100", "log.retention.ms": "7"}
    announce(broker, quotas, "brokers", "<default>")
    assert produced(broker, produce(batch(b"x" * 200))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produced(broker, produce(batch(b"x" * 200), topic="own")).error_code == 0
    log = broker.services.replicas.partitions[TopicPartition("own", 0)].log
    assert log is not None and log.config.retention_ms == 7
    broker.lead("new")
    assert produced(broker, produce(batch(b"x" * 200), topic="new")).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_connection_limits_and_producer_expiration_follow(harness: Make) -> None:
    """This broker's own values win over the default of all brokers; a connection that waits is accepted."""
    broker, quotas = harness(), ConnectionQuotas(max_connections=0)
    woken: list[str] = []
    quotas.when_available(lambda: woken.append("now"))
    broker.configs.brokers["<default>"] = {"max.connections": "9", "max.connections.per.ip": "3"}
    broker.configs.brokers["0"] = {"max.connections": "7", "producer.id.expiration.ms": "5"}
    announce(broker, quotas, "brokers", "0")
    assert (quotas.max_connections, quotas.max_connections_per_ip) == (7, 3)
    assert broker.services.replicas.logs.upkeep.producer_id_expiration_ms == 5
    assert woken == ["now"]


def test_a_broker_that_stops_follows_only_users_and_quotas(harness: Make) -> None:
    """The broker's other parts are closed, and a change would restart them."""
    broker, quotas = harness(), ConnectionQuotas()
    broker.configs.brokers["0"] = {"max.connections.per.ip": "4"}
    broker.configs.clients["c"] = {"producer_byte_rate": "5"}
    live = live_config(broker, quotas)
    live.follow_only_clients()
    for announced in (("brokers", "0"), ("topics", "t")):
        assert ensureDeferred(live.changed(*announced)).called
    assert broker.services.client_quotas.quotas.table.is_empty
    assert ensureDeferred(live.changes_missed()).called
    assert quotas.max_connections_per_ip != 4 and not broker.services.client_quotas.quotas.table.is_empty


def test_quotas_that_an_acl_hid_are_read_again(harness: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """All quotas are read again: the ACL of ``/config/users`` hides their names, and no announcement follows its
    removal.
    """
    broker, live_quotas = harness(), ConnectionQuotas()
    broker.configs.clients["c"] = {"producer_byte_rate": "5"}
    live = live_config(broker, live_quotas)

    async def hidden(entity_type: str) -> list[str]:
        raise NoAuth("/config/users")

    with monkeypatch.context() as patch:
        patch.setattr(broker.configs, "entity_names", hidden)
        assert ensureDeferred(live.session_renewed()).called and ensureDeferred(live.read_hidden()).called
    table = broker.services.client_quotas.quotas.table
    assert not table.names
    assert ensureDeferred(live.read_hidden()).called
    assert len(table.names) == 1
    broker.configs.clients["d"] = {"producer_byte_rate": "5"}
    assert ensureDeferred(live.read_hidden()).called
    assert len(table.names) == 1, "later changes are announced"


def test_listeners_follow_each_change(harness: Make) -> None:
    """Each call sees the configuration that is in force by then."""
    broker = harness()
    followed: list[str] = []

    async def follow() -> None:
        followed.append(",".join(broker.services.config.advertised_listeners))

    live = live_config(broker, ConnectionQuotas(), follow)
    for advertised in ("PLAINTEXT://one.example:9", None):
        broker.configs.brokers["0"] = {} if advertised is None else {"advertised.listeners": advertised}
        assert ensureDeferred(live.changed("brokers", "0")).called
    assert followed == ["PLAINTEXT://one.example:9", ""]


def test_what_is_not_allowed_in_zookeeper_is_ignored(harness: Make) -> None:
    """An old tool may write anything; the other keys still apply."""
    broker, quotas = harness(), ConnectionQuotas()
    broker.configs.brokers["0"] = {"broker.id": "7", "max.connections": "x", "max.connections.per.ip": "4"}
    announce(broker, quotas, "brokers", "0")
    assert quotas.max_connections_per_ip == 4
    assert broker.services.config.broker_id == 0


def test_another_brokers_change_is_not_ours(harness: Make) -> None:
    """Every broker receives the notification of every change."""
    broker, quotas = harness(), ConnectionQuotas()
    broker.configs.brokers["1"] = {"max.connections": "7"}
    announce(broker, quotas, "brokers", "1")
    assert quotas.max_connections == ConnectionQuotas().max_connections


def test_a_topic_whose_config_an_acl_hides_keeps_the_one_it_has(harness: Make) -> None:
    """A LeaderAndIsr request has many topics: the other topics get their leaders."""
    broker = harness()
    broker.configs.topics["t"] = {"max.message.bytes": "100"}
    topic_id = broker.lead("t")
    broker.configs.hidden = {("topics", "t")}
    assert broker.lead_again("t", topic_id, leader_epoch=1) == 0
    broker.lead("other")
    assert produced(broker, produce(batch(b"x" * 200))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produced(broker, produce(batch(b"x"))).error_code == 0
    assert produced(broker, produce(batch(b"x"), topic="other")).error_code == 0


def test_a_topic_whose_config_was_never_known_is_served_once_it_can_be_read(harness: Make) -> None:
    broker, quotas = harness(), ConnectionQuotas()
    broker.configs.topics["t"] = {"max.message.bytes": "100"}
    broker.configs.hidden = {("topics", "t")}
    topic_id = broker.lead("t")
    assert broker.lead_again("t", topic_id, leader_epoch=1) == ErrorCode.INVALID_CONFIG
    assert ensureDeferred(live_config(broker, quotas).read_hidden()).called
    assert produced(broker, produce(batch(b"x"))).error_code == ErrorCode.INVALID_CONFIG
    broker.configs.topics["t"], broker.configs.hidden = {"max.message.bytes": "100"}, set()
    announce(broker, quotas, "topics", "t")
    assert produced(broker, produce(batch(b"x"))).error_code == 0
    assert produced(broker, produce(batch(b"x" * 200))).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_broker_keeps_its_own_config_while_an_acl_hides_it(harness: Make) -> None:
    broker, quotas = harness(), ConnectionQuotas()
    broker.configs.brokers["0"] = {"max.connections.per.ip": "4"}
    announce(broker, quotas, "brokers", "0")
    broker.configs.hidden = {("brokers", "0")}
    announce(broker, quotas, "brokers", "0")
    assert quotas.max_connections_per_ip == 4


def test_a_slow_change_does_not_bring_back_what_a_later_one_replaced(harness: Make) -> None:
    """A change of topic defaults waits for replicas; certificates, for example, may change during that time."""
    broker = harness()
    broker.lead("t")
    followed: list[int] = []

    async def follow() -> None:
        followed.append(broker.services.config.max_connections)

    live = live_config(broker, ConnectionQuotas(), follow)
    broker.services.replicas.state_changes.acquire()
    for count in (1, 2):
        broker.configs.brokers["0"] = {"message.max.bytes": "100", "max.connections": str(count)}
        ensureDeferred(live.changed("brokers", "0"))
    broker.services.replicas.state_changes.release()
    assert followed == [2, 2]
