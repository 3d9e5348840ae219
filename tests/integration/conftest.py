"""Fixtures: fresh environments, one for each set of requirements, with a wheel that is built once for all workers; and
clusters for tests of groups.
"""

import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.backend import Backend
from kafka_zk.testing.zookeeper import Chroot
from tests.fresh_environment import MakeEnvironment, build_wheel, fresh_environment


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> MakeEnvironment:
    """``make_environment(["kafka-zk[embedded]", "pytest"])``: an environment with nothing else; returns its ``bin``."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if hasattr(request.config, "workerinput") else base
    made: dict[frozenset[str], Path] = {}

    def make(requirements: Iterable[str]) -> Path:
        wanted = frozenset(requirements)
        if wanted not in made:
            folder = tmp_path_factory.mktemp("environment") / "venv"
            made[wanted] = fresh_environment(folder, build_wheel(shared / "wheel"), sorted(wanted))
        return made[wanted]

    return make


@pytest.fixture(scope="session")
def group_cluster(
    kafka_zk_backend: Backend, zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedCluster]:
    """A broker whose groups do not wait for further members at first; tests must restore its state."""
    chroot = Chroot(zookeeper_server, "/group-cluster")
    keys = {"group.initial.rebalance.delay.ms": "0"}
    with kafka_zk_backend.cluster(tmp_path_factory.mktemp("cluster"), 1, chroot.connect_string, keys) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def traced_cluster(
    zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedCluster]:
    """One broker, which writes its events into the folder ``trace``; its groups begin after a short delay."""
    where = Chroot(zookeeper_server, f"/traced-{uuid.uuid4().hex[:8]}").connect_string
    properties = {"group.initial.rebalance.delay.ms": "500", "offsets.topic.num.partitions": "5"}
    folder, trace = tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("trace")
    with EmbeddedCluster(folder, broker_count=1, zookeeper=where, properties=properties, trace=trace) as running:
        yield running
