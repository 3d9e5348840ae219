"""The servers' reports about their connections, and which checks are skipped without them."""

from typing import Any, cast

import pytest

from kafka_zk.cli.migration.zookeeper_clients import read_strangers
from kafka_zk.embedded.health import NoAnswer, NotAllowed
from kafka_zk.migration.facts import ClusterFacts, Examples, Fact, Unknown
from kafka_zk.registry.client.errors import NoAuth
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient
from tests.kafka_zk.migration.recorded import REFUSED, facts

CONS = " /10.0.0.7:4000[1](queued=0,sid=0x9,lop=PING)\n /127.0.0.1:4001[1](queued=0,sid=0x8,lop=PING)\n"
SERVERS = "zk1:2181,zk2:2181"
OF_BOTH = Examples.of(["10.0.0.7 (2 connections)"])


class NoZnodes:
    session_id = 1

    def __init__(self, error: type[Exception] | None = None) -> None:
        self._error = error

    async def children(self, path: str) -> Any:
        if self._error is not None:
            raise self._error(path)
        return [], None

    async def get_all(self, paths: list[str]) -> list[Any]:
        return []


def strangers(
    monkeypatch: pytest.MonkeyPatch, answer: object, servers: str = SERVERS, cluster: ClusterFacts | None = None,
    **client: Any,
) -> Fact[Examples]:  # fmt: skip
    """Run the check. By default, the controller is at 127.0.0.1."""

    def ask(word: str, port: int, host: str) -> str:
        assert (word, port) == ("cons", 2181)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    monkeypatch.setattr("kafka_zk.embedded.health.ask", ask)
    return read_strangers(servers, cast(KazooBlockingClient, NoZnodes(**client)), cluster or facts())


def test_all_servers_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert strangers(monkeypatch, CONS) == OF_BOTH


def test_with_a_chroot_others_may_belong_to_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    found = strangers(monkeypatch, CONS, f"{SERVERS}/kafka")
    assert isinstance(found, Unknown) and "10.0.0.7 (2 connections)" in found.reason
    assert strangers(monkeypatch, "", f"{SERVERS}/kafka") == Examples()


def test_controllers_without_a_known_address_are_no_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    nameless: dict[str, Any] = {"brokers": REFUSED, "broker_files": {}, "controller_files": {}}
    found = strangers(monkeypatch, CONS, cluster=facts(**nameless))
    assert isinstance(found, Unknown) and "--controller-properties" in found.remedy and "10.0.0.7" in found.reason
    before = facts({"migration": None}, **nameless)
    assert strangers(monkeypatch, CONS, cluster=before) == Examples.of([
        "10.0.0.7 (2 connections)", "127.0.0.1 (2 connections)",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [(NotAllowed("no"), "4lw.commands.whitelist=cons"), (NoAnswer("no"), "at ports without TLS")],
)  # fmt: skip
def test_a_server_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, answer: Exception, remedy: str) -> None:
    found = strangers(monkeypatch, answer)
    assert isinstance(found, Unknown) and remedy in found.remedy


def test_znodes_that_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(strangers(monkeypatch, CONS, error=NoAuth), Unknown)
