"""Which nodes the collector queries, and what files add to their responses."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.migration.cluster_collector import NOT_ASKED, ask_brokers, ask_controllers
from kafka_zk.migration.facts import Fact, Node, Quorum, Unknown
from kafka_zk.migration.node_collector import Address
from kafka_zk.migration.zookeeper_collector import not_read
from tests.kafka_zk.migration.recorded import (
    BROKER_CONFIGS,
    KRAFT_CONTROLLER,
    MIGRATION_MODE,
    NOT_COPIED,
    READY,
    REFUSED,
    ZOOKEEPER_MODE,
    facts,
)

AT = "h", 9092
QUORUM = Quorum(frozenset({1}))


class Collector:
    """Every node responds; ``asked`` has their addresses."""

    def __init__(self, configs: Fact[Mapping[str, str | None]] = BROKER_CONFIGS) -> None:
        self.asked: dict[int, Address] = {}
        self._configs = configs

    async def broker(self, node_id: int, address: Address) -> Node:
        self.asked[node_id] = address
        return Node(node_id, MIGRATION_MODE, self._configs)

    async def controller(self, node_id: int, address: Address) -> Node:
        self.asked[node_id] = address
        return Node(node_id, READY if node_id == 3001 else REFUSED, self._configs, "id", True)

    async def voters(self, addresses: Iterable[Address]) -> Fact[Mapping[int, Address]]:
        """Only the second address is that of the leader."""
        return {3001: list(addresses)[1]}

    async def quorum(self, addresses: Mapping[int, Address]) -> Fact[Quorum]:
        """Only controllers that responded are asked again."""
        assert addresses.keys() <= {3001}
        return QUORUM


def done(work: Any) -> Any:
    results: list[Any] = []
    Deferred.fromCoroutine(work).addCallback(results.append)
    return results[0]


def collector(configs: Fact[Mapping[str, str | None]] = BROKER_CONFIGS) -> Any:
    return Collector(configs)


def test_a_registered_broker_without_an_address_is_not_known() -> None:
    asked = collector()
    first, second = done(ask_brokers(asked, {1: AT}, {1, 2}, {}))
    assert first == Node(1, MIGRATION_MODE, BROKER_CONFIGS) and asked.asked == {1: AT}
    assert second.node_id == 2 and isinstance(second.api, Unknown) and "broker 2" in second.api.reason


def test_a_file_completes_what_a_broker_describes() -> None:
    (broker,) = done(ask_brokers(collector(), {1: AT}, (), {"f": {"broker.id": "1", "super.users": "User:admin"}}))
    assert broker.configs == {**BROKER_CONFIGS, "broker.id": "1", "super.users": "User:admin"}


def test_a_file_replaces_what_a_broker_refuses() -> None:
    (broker,) = done(ask_brokers(collector(REFUSED), {1: AT}, (), {"f": {"node.id": "1", "log.dirs": "/data"}}))
    assert broker.configs == {"node.id": "1", "log.dirs": "/data"}


def test_files_name_brokers_that_were_not_asked() -> None:
    files = {"f": {"broker.id": "7"}, "g": {"broker.id": "no number"}}
    (broker,) = done(ask_brokers(collector(), NOT_ASKED, (), files))
    assert broker.node_id == 7 and isinstance(broker.api, Unknown) and broker.api.remedy == "--bootstrap-server"


def test_without_any_broker_there_is_a_reason() -> None:
    assert done(ask_brokers(collector(), REFUSED, (), {})) == REFUSED


def test_brokers_name_the_controllers() -> None:
    asked = collector()
    controllers, quorum = done(ask_controllers(asked, not_read(), (Node(1, MIGRATION_MODE, BROKER_CONFIGS),), {}, {}))
    assert [node.node_id for node in controllers] == [3001] and quorum == QUORUM
    assert asked.asked == {3001: ("127.0.0.1", 9093)}


def test_a_dynamic_quorum_names_its_controllers() -> None:
    asked = collector()
    broker = Node(1, MIGRATION_MODE, {"controller.quorum.bootstrap.servers": "a:1,b:2"})
    controllers, _ = done(ask_controllers(asked, not_read(), (broker,), {}, {}))
    assert [node.node_id for node in controllers] == [3001] and asked.asked == {3001: ("b", 2)}


def test_a_controller_that_does_not_respond_is_not_asked_again() -> None:
    file = {"f": {"controller.quorum.voters": "3001@h:1,3002@h:2"}}
    controllers, quorum = done(ask_controllers(collector(), not_read(), REFUSED, {}, file))
    assert [node.api for node in controllers] == [READY, REFUSED] and quorum == QUORUM


def test_without_voters_there_are_no_controllers() -> None:
    controllers, quorum = done(ask_controllers(collector(), not_read(), REFUSED, {}, {}))
    assert isinstance(controllers, Unknown) and "--controller-properties" in controllers.remedy
    assert quorum == controllers


BEFORE = facts({"migration": None}).zookeeper
WITHOUT_QUORUM = Node(1, ZOOKEEPER_MODE, {"broker.id": "1", "controller.quorum.voters": ""})


def test_a_cluster_that_has_not_begun_a_migration_has_no_controllers() -> None:
    controllers, quorum = done(ask_controllers(collector(), BEFORE, (WITHOUT_QUORUM,), {}, {}))
    assert controllers == () and isinstance(quorum, Unknown)


@pytest.mark.parametrize(
    ("zookeeper", "brokers", "files"),
    [
        (not_read(), (WITHOUT_QUORUM,), {}),
        (facts({"migration": NOT_COPIED}).zookeeper, (WITHOUT_QUORUM,), {}),
        (facts({"migration": None, "controller": KRAFT_CONTROLLER}).zookeeper, (WITHOUT_QUORUM,), {}),
        (BEFORE, REFUSED, {}),
        (BEFORE, (WITHOUT_QUORUM, Node(2, REFUSED, REFUSED)), {}),
        (BEFORE, (WITHOUT_QUORUM,), {"f": {"process.roles": "controller"}}),
    ],
    ids=["no ZooKeeper", "/migration", "a KRaft controller", "no brokers", "an unknown broker", "a planned controller"],
)
def test_controllers_that_nothing_names_may_exist(zookeeper: Any, brokers: Any, files: Any) -> None:
    controllers, _ = done(ask_controllers(collector(), zookeeper, brokers, {}, files))
    assert isinstance(controllers, Unknown)
