"""What is read from a real ZooKeeper, and what is not known when its ACLs hide znodes."""

import json
from collections.abc import Iterator
from dataclasses import fields

import pytest

from kafka_zk.migration.facts import (
    BrokerConfigs,
    ControllerZnode,
    Examples,
    MigrationZnode,
    TopicConfigs,
    Unknown,
    ZooKeeperFacts,
)
from kafka_zk.migration.znode_reads import IDENTITY
from kafka_zk.migration.zookeeper_collector import NOT_OBSERVED, collect, not_read
from kafka_zk.registry import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.client.security import NO_SECURITY, Security
from kafka_zk.registry.client.security_keys import DIGEST, SET_ACL, zookeeper_security
from kafka_zk.testing.zookeeper import Chroot

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

CLUSTER_ID = "AbCdEfGhIjKlMnOpQrStUv"
STATE = {"version": 1, "leader_epoch": 0}
ZNODES = {
    "/cluster/id": {"version": "1", "id": CLUSTER_ID},
    "/controller": {"version": 2, "brokerid": 3001, "timestamp": "1", "kraftControllerEpoch": 2},
    "/controller_epoch": 7,
    "/migration": {"version": 0, "kraft_metadata_offset": 131, "kraft_controller_id": 3001},
    "/brokers/ids/1": {"version": 1, "host": "h", "port": 9092},
    "/brokers/topics/full": {"version": 1, "partitions": {"0": [1, 2]}},
    "/brokers/topics/full/partitions/0/state": {**STATE, "leader": 1, "isr": [1, 2], "controller_epoch": 4},
    "/brokers/topics/behind": {"version": 1, "partitions": {"0": [2, 3]}, "adding_replicas": {"0": [3]}},
    "/brokers/topics/behind/partitions/0/state": {**STATE, "leader": 2, "isr": [2], "controller_epoch": 9},
    "/brokers/topics/dead": {"version": 1, "partitions": {"0": [2]}},
    "/brokers/topics/dead/partitions/0/state": {**STATE, "leader": -1, "isr": [2], "controller_epoch": 4},
    "/brokers/topics/odd": {"version": 1},
    "/config/topics/full": {"version": 1, "config": {"cleanup.policy": "compact"}},
    "/config/topics/cold": {"version": 1, "config": {"remote.storage.enable": "false", "local.retention.ms": "1"}},
    "/config/topics/never-cold": {"version": 1, "config": {"remote.storage.enable": "false"}},
    "/config/topics/odd": {"version": 1},
    "/config/brokers/1": {"version": 1, "config": {"listener.name.tls.ssl.key.password": "encrypted"}},
    "/config/users/alice": {"version": 1, "config": {"SCRAM-SHA-256": "nonsense"}},
    "/config/users/bob": {"version": 1, "config": {"producer_byte_rate": "1024", "request_percentage": "12.5"}},
    "/config/users/bob/clients/app": {"version": 1, "config": {"producer_byte_rate": "fast"}},
    "/config/clients/app": {"version": 1, "config": {"consumer_byte_rate": "1024.0"}},
    "/kafka-acl/Topic/orders": {"version": 1, "acls": [{}]},
    "/admin/delete_topics/dying": None,
    "/delegation_token/tokens/one": None,
    "/consumers/readers/offsets/orders/0": 7,
    "/consumers/console-consumer-1/ids": None,
}  # fmt: skip


def connected(zookeeper: Chroot, security: Security = NO_SECURITY) -> KazooBlockingClient:
    return KazooBlockingClient(zookeeper.connect_string, 4_000, security=security)


def digest(set_acl: bool) -> Security:
    return zookeeper_security({DIGEST: "kafka:secret", SET_ACL: str(set_acl)})


@pytest.fixture
def found(zookeeper: Chroot) -> Iterator[ZooKeeperFacts]:
    with connected(zookeeper) as client:
        for path, document in ZNODES.items():
            data = None if document is None else json.dumps(document).encode()
            run_blocking(create_with_parents(client, Create(path, data)))
        yield run_blocking(collect(client))


def test_all_facts(found: ZooKeeperFacts) -> None:
    partitions = found.partitions
    assert not isinstance(partitions, Unknown)
    assert (partitions.highest_epoch, partitions.highest_epoch_at) == (9, "behind-0")
    assert partitions.replicas.keys() == {1, 2, 3} and partitions.replicas[1] == "full-0"
    assert partitions.leaderless.names == ("dead-0 (last ISR: 2)",)
    assert partitions.under_replicated.names == ("behind-0",)
    assert partitions.moving.names == ("behind-0",)
    assert "/brokers/topics/odd" in str(partitions.malformed)
    assert found == ZooKeeperFacts(
        cluster_id=CLUSTER_ID,
        controller=ControllerZnode(3001, 2, is_ephemeral=False),
        controller_epoch=7,
        migration=MigrationZnode(131),
        is_written=NOT_OBSERVED,
        registered=frozenset({1}),
        partitions=partitions,
        topic_configs=TopicConfigs(Examples.of(["odd"]), Examples.of(["cold"])),
        broker_configs=BrokerConfigs(with_passwords=Examples.of(["1"])),
        malformed_entities=Examples.of(["/config/users/alice", "/config/users/bob/clients/app", "/config/clients/app"]),
        malformed_acls=Examples.of(["Topic:orders"]),
        deletions=Examples.of(["dying"]),
        protected=Examples(),
        tokens=1,
        scram_users=1,
        groups=Examples.of(["readers"]),
    )


def test_no_secret_is_kept(found: ZooKeeperFacts) -> None:
    assert "nonsense" not in repr(found) and "encrypted" not in repr(found)


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]"])
def test_a_migration_that_is_not_understood(zookeeper: Chroot, data: bytes | None) -> None:
    """Kafka's zookeeper-security-migration creates such a znode."""
    with connected(zookeeper) as client:
        run_blocking(client.create("/migration", data))
        assert run_blocking(collect(client)).migration == MigrationZnode(None)


def test_an_empty_zookeeper(zookeeper: Chroot) -> None:
    with connected(zookeeper) as client:
        empty = run_blocking(collect(client))
    assert (empty.cluster_id, empty.controller, empty.controller_epoch, empty.migration) == (None,) * 4
    assert (empty.registered, empty.tokens, empty.groups) == (frozenset(), 0, Examples())


def test_what_an_acl_hides_is_not_known(zookeeper: Chroot) -> None:
    with connected(zookeeper, digest(set_acl=True)) as owner:
        for path in ("/config/users/alice", "/config/topics/full"):
            run_blocking(create_with_parents(owner, Create(path, json.dumps(ZNODES[path]).encode())))
        by_owner = run_blocking(collect(owner))
        with connected(zookeeper) as stranger:
            by_stranger = run_blocking(collect(stranger))
    assert by_owner.malformed_entities == Examples.of(["/config/users/alice"])
    assert isinstance(by_stranger.malformed_entities, Unknown) and by_stranger.malformed_entities.remedy == IDENTITY
    assert isinstance(by_stranger.protected, Unknown)
    assert by_stranger.topic_configs == TopicConfigs()
    assert isinstance(by_owner.protected, Examples) and "/config/users" in by_owner.protected.names


def test_without_zookeeper_nothing_is_known() -> None:
    facts = not_read()
    assert {getattr(facts, each.name).remedy for each in fields(facts)} == {"--zookeeper"}
