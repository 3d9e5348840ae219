"""A broker whose ZooKeeper session was lost: it reads the changes of that time, although they are not announced again.

Real sockets and logs, ZooKeeper in memory.
"""

from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.process.broker import Broker
from kafka_zk.broker.process.machine import Machine
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.znodes.config import entity_path
from kafka_zk.security import scram
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper
from tests.kafka_zk.network.harness import LocalReactor

MECHANISM = "SCRAM-SHA-256"
LISTENERS = {
    "SCRAM": {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": MECHANISM,
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    },
    "no SCRAM": {"listeners": "PLAINTEXT://127.0.0.1:0"},
}


class Secured:
    """A broker with the users ``stays`` and ``goes``, and a tool that changes them."""

    def __init__(self, reactor: LocalReactor, folder: Path, listeners: dict[str, str]) -> None:
        self.reactor = reactor
        self.zookeeper = SimZooKeeper(reactor, delay_ms=(0.0, 0.1))  # type: ignore[arg-type]
        self.tool = ConfigRegistry(self.zookeeper.client("tool"))
        for user in ("stays", "goes"):
            reactor.result_of(self.tool.set_entity("users", user, stored("old")))
        self.client = self.zookeeper.client("broker")
        keys = {"zookeeper.connect": "in-memory:1", "log.dirs": str(folder), **listeners}
        config, _ = KafkaConfig.from_properties(keys)
        self.broker: Any = Broker(Machine.of(reactor), config, self.client, pytest.fail)
        reactor.result_of(self.broker.start())

    def knows(self, user: str, password: str) -> bool:
        return bool(self.broker.parts.credentials.find(MECHANISM, user) == credential(password))

    def is_limited_to(self, connections: int) -> bool:
        return bool(self.broker.services.config.max_connections == connections)

    def renew_session(self) -> None:
        before = self.client.session_id
        self.zookeeper.expire(self.client)
        self.reactor.until(lambda: self.owner() == self.client.session_id != before)

    def owner(self) -> int | None:
        """The session that owns the broker's registration."""
        try:
            _, stat = self.zookeeper.tree.get(f"/brokers/ids/{self.broker.broker_id}")
        except NoNode:
            return None
        return int(stat.ephemeral_owner)


@lru_cache
def credential(password: str) -> scram.ScramCredential:
    return scram.credential(MECHANISM, scram.salted_password(MECHANISM, password, b"s", 4096), b"s", 4096)


def stored(password: str) -> dict[str, str]:
    return {MECHANISM: scram.encode_credential(credential(password))}


@pytest.fixture
def reactor() -> Iterator[LocalReactor]:
    made = LocalReactor()
    yield made
    made.close()


def test_users_are_as_zookeeper_has_them(reactor: LocalReactor, tmp_path: Path) -> None:
    """One password was changed, one user removed, and one added."""
    secured = Secured(reactor, tmp_path, LISTENERS["SCRAM"])
    assert secured.knows("stays", "old") and secured.knows("goes", "old")
    reactor.result_of(secured.tool.set_entity("users", "stays", stored("new")))
    reactor.result_of(secured.tool.set_entity("users", "comes", stored("new")))
    reactor.result_of(secured.zookeeper.client("tool").delete(entity_path("users", "goes")))
    secured.renew_session()
    reactor.until(lambda: secured.knows("comes", "new"))
    assert secured.knows("stays", "new") and not secured.knows("goes", "old")
    reactor.result_of(secured.broker.stop())


@pytest.mark.parametrize("path", ["/config/users", "/config/users/stays"])
def test_nobody_logs_in_whose_credential_an_acl_hides(reactor: LocalReactor, tmp_path: Path, path: str) -> None:
    """The broker still registers. It reads the users when the ACL allows it, although no notification follows a changed
    ACL."""
    secured = Secured(reactor, tmp_path, LISTENERS["SCRAM"])
    secured.zookeeper.tree.hidden.add(path)
    secured.renew_session()
    reactor.until(lambda: not secured.knows("stays", "old"))
    assert secured.knows("goes", "old") == (path != "/config/users")
    secured.zookeeper.tree.hidden.clear()
    reactor.result_of(secured.broker._live_config.read_hidden())
    assert secured.knows("stays", "old") and secured.knows("goes", "old")
    reactor.result_of(secured.broker.stop())


def test_a_session_that_ends_over_the_reading_is_not_the_last(reactor: LocalReactor, tmp_path: Path) -> None:
    """The next session reads the users; until then the known ones stay."""
    secured = Secured(reactor, tmp_path, LISTENERS["SCRAM"])
    reactor.result_of(secured.tool.set_entity("users", "stays", stored("new")))
    ended = False

    def end_once(state: SessionState) -> None:
        nonlocal ended
        if state is SessionState.CONNECTED and not ended:
            ended = True
            secured.zookeeper.expire(secured.client)

    remove = secured.client.add_session_listener(end_once)
    secured.zookeeper.expire(secured.client)
    reactor.until(lambda: secured.knows("stays", "new"))
    remove()
    assert ended and secured.knows("goes", "old")
    reactor.result_of(secured.broker.stop())


def test_a_broker_without_users_reads_none(reactor: LocalReactor, tmp_path: Path) -> None:
    """The broker reads users neither after an announcement nor in a new session."""
    secured = Secured(reactor, tmp_path, LISTENERS["no SCRAM"])
    reactor.result_of(secured.tool.change_entity("users", "stays", stored("new")))
    for limit in (7, 8):
        reactor.result_of(secured.tool.change_entity("brokers", "<default>", {"max.connections": str(limit)}))
        reactor.until(partial(secured.is_limited_to, limit))
        assert not secured.knows("stays", "new")
        secured.renew_session()
    reactor.result_of(secured.broker.stop())
