"""A ZooKeeper in a container starts like a process. Tests with an engine are in tests/containers."""

import inspect

import pytest

from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.zookeeper_container import ZooKeeperContainer


def test_something_else_can_be_done_while_a_container_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster starts its ZooKeeper with the same arguments, in a process or in a container."""
    calls: list[str] = []
    monkeypatch.setattr(ZooKeeperContainer, "launch", lambda _: calls.append("launch"))
    monkeypatch.setattr(ZooKeeperContainer, "wait_serving", lambda _, timeout_s: calls.append("serving"))
    server = ZooKeeperContainer.__new__(ZooKeeperContainer)  # without an engine
    assert server.start(meanwhile=lambda: calls.append("meanwhile")) is server
    assert calls == ["launch", "meanwhile", "serving"]
    both = (EmbeddedZooKeeper.start, ZooKeeperContainer.start)
    assert len({tuple(inspect.signature(start).parameters) for start in both}) == 1
