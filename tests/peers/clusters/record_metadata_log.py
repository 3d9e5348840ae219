"""``python -m tests.peers.clusters.record_metadata_log FOLDER``: both sides of a migration of Apache Kafka 3.9.1.

A broker and a controller reach dual write, then topics, configurations, ACLs, users and quotas change. The controller
is stopped, and FOLDER gets its ``__cluster_metadata-0`` (a snapshot and the log after it) and ``znodes.json``. One
topic's configuration is malformed before the copy, so the two sides differ only in it.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kazoo.client import KazooClient

from kafka_zk.registry.znodes import delegation_token
from kafka_zk.registry.znodes.delegation_token import Principal, TokenInformation
from tests.integration.processes import kafka_zk
from tests.peers import apache_kafka, java, wire_probe
from tests.peers.clusters.kraft_migration import MIGRATED, KRaftController, MigratingBroker
from tests.peers.jars import ORACLE_VERSION
from tests.peers.processes import wait_until

_CHROOT = "/recorded"
_TIMEOUT_S = 120
_IBP = {"inter.broker.protocol.version": "3.9", "offsets.topic.num.partitions": "1"}
_BROKER = {
    **_IBP, "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "a-secret", "transaction.state.log.num.partitions": "1",
}  # fmt: skip
_CONTROLLER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS", "delegation.token.secret.key": "a-secret",
    "metadata.log.max.record.bytes.between.snapshots": "4000", "metadata.max.idle.interval.ms": "5000",
}  # fmt: skip
_ROOTS = ("brokers", "config", "kafka-acl", "kafka-acl-extended", "delegation_token", "migration",
          "latest_producer_id_block", "controller", "controller_epoch")  # fmt: skip
_SCRAM = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)


def record(target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper", force_sync=False)
        controller = KRaftController(folder)
        broker = MigratingBroker(folder, 1, controller.quorum)
        try:
            _run(f"{zookeeper.connect_string}{_CHROOT}", broker, controller, target)
        finally:
            broker.kill()
            controller.kill()
            zookeeper.kill()


def _run(zookeeper: str, broker: MigratingBroker, controller: KRaftController, target: Path) -> None:
    broker.start_before_the_migration(zookeeper, _BROKER)
    wait_until(lambda: wire_probe.is_ready(broker.port), _TIMEOUT_S, "the broker")
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
    client = KazooClient(zookeeper)
    client.start()
    _before(admin, broker.port, client)
    cluster_id = json.loads(client.get("/cluster/id")[0])["id"]
    controller.start(cluster_id, zookeeper, _CONTROLLER)
    broker.stop()
    broker.start_with_zookeeper(zookeeper, _BROKER)
    wait_until(lambda: controller.says(MIGRATED), _TIMEOUT_S, "the copy")
    wait_until(lambda: wire_probe.is_ready(broker.port), _TIMEOUT_S, "the broker")
    _in_dual_write(admin, broker.port)
    log = controller.log_dir / "__cluster_metadata-0"
    wait_until(lambda: any(log.glob("*.checkpoint")), _TIMEOUT_S, "a snapshot")
    time.sleep(3)  # enough for the last changes
    _after_the_snapshot(admin)
    time.sleep(3)
    controller.stop()
    target.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target / log.name, ignore_errors=True)
    shutil.copytree(log, target / log.name)
    found = {path: base64.b64encode(data or b"").decode() for path, data in sorted(_znodes(client))}
    (target / "znodes.json").write_text(json.dumps(found, indent=0) + "\n")
    client.stop()


def _znodes(client: KazooClient) -> Iterator[tuple[str, bytes]]:
    waiting = [f"/{root}" for root in _ROOTS]
    while waiting:
        path = waiting.pop()
        if client.exists(path):
            yield path, client.get(path)[0]
            waiting += [f"{path}/{child}" for child in client.get_children(path)]


def _done(futures: Mapping[Any, Future[Any]]) -> None:
    for future in futures.values():
        future.result(_TIMEOUT_S)


def _quotas(port: int, *arguments: str) -> None:
    done = kafka_zk("quotas", *arguments, "--bootstrap-server", f"127.0.0.1:{port}", timeout_s=_TIMEOUT_S)
    assert done.returncode == 0, done.stderr


def _alter(admin: AdminClient, kind: ResourceType, name: str, key: str, value: str | None) -> None:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(key, value, incremental_operation=operation)
    _done(admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=[entry])]))


def _acl(principal: str, pattern: ResourcePatternType, operation: AclOperation, permission: AclPermissionType,
         name: str = "orders") -> AclBinding:  # fmt: skip
    return AclBinding(ResourceType.TOPIC, name, pattern, principal, "*", operation, permission)


_READ = _acl("User:alice", ResourcePatternType.LITERAL, AclOperation.READ, AclPermissionType.ALLOW)
_WRITE = _acl("User:alice", ResourcePatternType.LITERAL, AclOperation.WRITE, AclPermissionType.ALLOW)
_DENY = _acl("User:bob", ResourcePatternType.PREFIXED, AclOperation.ALL, AclPermissionType.DENY, "pay")


def _before(admin: AdminClient, port: int, client: KazooClient) -> None:
    compacted = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
    _done(admin.create_topics([
        NewTopic("orders", 3, 1, config=compacted), NewTopic("payments", 1, 1), NewTopic("gone", 2, 1),
        NewTopic("broken", 1, 1, config=compacted),
    ]))  # fmt: skip
    _done(admin.create_acls([_READ, _WRITE]))
    _done(admin.alter_user_scram_credentials([
        UserScramCredentialUpsertion(user, _SCRAM, b"a-password") for user in ("alice", "bob")
    ]))  # fmt: skip
    _quotas(port, "set", "--user", "alice", "producer_byte_rate=1048576", "request_percentage=50.5")
    _quotas(port, "set", "--user", "alice", "--client-id", "app", "consumer_byte_rate=2048")
    _quotas(port, "set", "--default-user", "--default-client", "consumer_byte_rate=4096")
    _quotas(port, "set", "--default-client", "consumer_byte_rate=8192")
    _alter(admin, ResourceType.BROKER, "1", "log.cleaner.threads", "2")
    java.run_tool(ORACLE_VERSION, "kafka.admin.ConfigCommand", [
        "--bootstrap-server", f"127.0.0.1:{port}", "--entity-type", "brokers", "--entity-default", "--alter",
        "--add-config", "log.cleaner.backoff.ms=20000",
    ])  # fmt: skip
    alice, now_ms = Principal("User", "alice"), 1_795_737_658_262
    expiry_ms = now_ms + 10**11
    token = TokenInformation("token-1", alice, alice, (Principal("User", "bob"),), now_ms, expiry_ms, expiry_ms)
    client.create(delegation_token.token_path("token-1"), delegation_token.encode(token), makepath=True)
    client.set("/config/topics/broken", b"{")


def _in_dual_write(admin: AdminClient, port: int) -> None:
    _done(admin.create_topics([NewTopic("late", 2, 1, config={"retention.ms": "60000"})]))
    _done(admin.delete_topics(["gone"]))
    _done(admin.create_acls([_DENY]))
    _alter(admin, ResourceType.TOPIC, "orders", "min.insync.replicas", None)
    _alter(admin, ResourceType.TOPIC, "orders", "retention.ms", "120000")
    _quotas(port, "set", "--ip", "127.0.0.9", "connection_creation_rate=5")
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "enable.idempotence": True})
    producer.produce("payments", b"one")
    producer.flush(_TIMEOUT_S)


def _after_the_snapshot(admin: AdminClient) -> None:
    _done(admin.create_partitions([NewPartitions("payments", 2)]))
    _done(admin.create_topics([NewTopic("latest", 1, 1)]))
    _done(admin.delete_topics(["late"]))
    _done(admin.alter_user_scram_credentials([UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256)]))
    _alter(admin, ResourceType.TOPIC, "payments", "cleanup.policy", "compact")


if __name__ == "__main__":
    apache_kafka.start_quickly()
    record(Path(sys.argv[1]))
