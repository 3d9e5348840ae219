"""Every API that Apache Kafka 3.9.1 offers in ZooKeeper mode is offered by ours in the same versions, or there is a
reason why not."""

from collections.abc import Iterator

import pytest

from kafka_zk.protocol.api_keys import ApiKey
from tests.peers import targets, wire_probe

pytestmark = pytest.mark.peers

_FORWARDING = "forwarding to a KRaft controller (KIP-590), which a cluster with ZooKeeper has not"

REASONS = {ApiKey.ENVELOPE: _FORWARDING}
"""APIs that Kafka's broker offers and ours may lack; remove a line when its API is built."""


@pytest.fixture(scope="module")
def offered(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[int, object]]]:
    """The offered versions by API key, of each target."""
    found: dict[str, dict[int, object]] = {}
    for name in targets.NAMES:
        cluster = targets.start(name, peer_zookeeper, tmp_path_factory.mktemp(name), chroot=f"offered-{name}")
        try:
            found[name] = dict(wire_probe.offered_versions(cluster.ports[0]))
        finally:
            cluster.stop()
    yield found


def test_every_api_is_offered_or_has_a_reason(offered: dict[str, dict[int, object]]) -> None:
    ours, kafkas = offered[targets.KAFKA_ZK], offered[targets.APACHE_KAFKA]
    missing = {ApiKey(key).name for key in kafkas.keys() - ours.keys() - REASONS.keys()}
    assert not missing, "an API is neither offered nor has a reason"
    assert not {ApiKey(key).name for key in REASONS.keys() - kafkas.keys()}, "a reason is left over"
    assert not {ApiKey(key).name for key in ours.keys() - kafkas.keys()}, "ours offers an API that Kafka does not"


def test_versions_are_the_same(offered: dict[str, dict[int, object]]) -> None:
    ours, kafkas = offered[targets.KAFKA_ZK], offered[targets.APACHE_KAFKA]
    assert {ApiKey(key).name: ours[key] for key in ours} == {ApiKey(key).name: kafkas[key] for key in ours}


def test_a_reason_ends_when_the_api_is_there(offered: dict[str, dict[int, object]]) -> None:
    assert not {ApiKey(key).name for key in REASONS.keys() & offered[targets.KAFKA_ZK].keys()}
