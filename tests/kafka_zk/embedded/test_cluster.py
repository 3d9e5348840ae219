"""The error of a cluster without processes when it cannot start."""

from pathlib import Path

import pytest

from kafka_zk.embedded import cluster
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.registry.client.errors import RegistryError


class _Check:
    """A check that loses ZooKeeper after it found the leaders."""

    closed = False

    def __init__(self, *_: object) -> None:
        pass

    def missing(self, _: object) -> set[object]:
        return set()

    def leaderless(self, _: object) -> dict[object, list[int]]:
        raise RegistryError("connection lost")

    def close(self) -> None:
        _Check.closed = True


def test_a_zookeeper_that_is_lost_while_leaders_are_checked_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "LeadershipCheck", _Check)
    empty = cluster.EmbeddedCluster(tmp_path / "data", zookeeper="127.0.0.1:1")
    with pytest.raises(ProcessFailed, match="the leaders of the partitions cannot be checked: connection lost"):
        empty.wait_ready()
    assert _Check.closed
