"""Fixtures of the peer tests: one ZooKeeper, one cluster for each target, one JVM for each Java client version,
one Spark session for each module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.peers import apache_kafka, jars, java, requirements, targets
from tests.peers.clients.java_clients import JavaDriver
from tests.peers.clients.old_clients import OldDriver
from tests.peers.processes import ProcessFailed
from tests.peers.spark import spark_sources

apache_kafka.start_quickly()

#: Two brokers of ours, so that clients must find the leader; Apache Kafka has one, because its JVM is big.
_BROKER_COUNT = {targets.KAFKA_ZK: 2, targets.APACHE_KAFKA: 1}
#: Records of the data sets are years old: with Kafka's seven days, retention would remove them 30 s after the start.
_OVERRIDES = {"log.retention.ms": "-1"}


@pytest.fixture(scope="session")
def peer_tools() -> None:
    """Check that Java, Maven, kcat, Go, Node.js and all jars exist. If not, the test fails (it is never skipped), and
    names what is missing."""
    try:
        requirements.require(kcat=True, foreign=True)
        for version in jars.VERSIONS:
            java.compiled(version)
    except (requirements.MissingPeerTools, jars.JarsNotResolved, java.JavaFailed) as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def peer_zookeeper(peer_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The connect string of a real ZooKeeper for all targets."""
    server = apache_kafka.start_zookeeper(tmp_path_factory.mktemp("zookeeper"), force_sync=False)
    yield server.connect_string
    server.stop()


@pytest.fixture(scope="session")
def running_target(
    peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], targets.Target]]:
    """``running_target(name)``: the cluster of that name, started on its first use; all clusters run until the end."""
    started: dict[str, targets.Target] = {}

    def get(name: str) -> targets.Target:
        if name not in started:
            folder, count = tmp_path_factory.mktemp(name), _BROKER_COUNT[name]
            try:
                started[name] = targets.start(name, peer_zookeeper, folder, broker_count=count, overrides=_OVERRIDES)
            except ProcessFailed as failure:
                pytest.fail(str(failure), pytrace=False)
        return started[name]

    yield get
    complaints = [complaint for cluster in started.values() for complaint in cluster.stop()]
    assert not complaints, "\n".join(complaints)


@pytest.fixture(scope="session", params=targets.NAMES)
def target(request: pytest.FixtureRequest, running_target: Callable[[str], targets.Target]) -> targets.Target:
    """A running cluster: kafka-zk, then Apache Kafka 3.9.1 in ZooKeeper mode as the oracle of the same test."""
    return running_target(request.param)


@pytest.fixture(scope="module")
def spark_with_both_sources(peer_tools: None) -> Iterator[Any]:
    """A Spark session with our source and Spark's own. It ends with its module, because a process has only one session,
    and the next module may need another kind.
    """
    with spark_sources.both_sources() as session:
        yield session


@pytest.fixture(scope="session")
def java_drivers(peer_tools: None) -> Iterator[dict[str, JavaDriver]]:
    """One JVM with Kafka's Java clients of 3.9.1 and one of 4.3.0."""
    drivers = {version: JavaDriver(version) for version in (jars.ORACLE_VERSION, jars.NEWEST_VERSION)}
    yield drivers
    for driver in drivers.values():
        driver.close()


@pytest.fixture(scope="session")
def old_drivers(peer_tools: None) -> Iterator[dict[str, OldDriver]]:
    """One JVM with Kafka's clients of 0.8.2.2 and one of 0.10.2.2."""
    drivers = {version: OldDriver(version) for version in jars.LEGACY_VERSIONS}
    yield drivers
    for driver in drivers.values():
        driver.close()


@pytest.fixture(params=(jars.ORACLE_VERSION, jars.NEWEST_VERSION))
def java_driver(request: pytest.FixtureRequest, java_drivers: dict[str, JavaDriver]) -> JavaDriver:
    """Kafka's Java clients of each version in turn."""
    version: str = request.param
    return java_drivers[version]
