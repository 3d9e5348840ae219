"""Hostile writes to ZooKeeper: any kind of znode that brokers and controllers read, with any content."""

import json
import random
from typing import Any, NamedTuple

from kafka_zk.registry.client.client import Create, RegistryClient
from kafka_zk.registry.client.errors import NoNode, RegistryError
from kafka_zk.registry.client.pipeline import create_with_parents

VICTIMS = tuple(f"victim-{number}" for number in range(4))
"""Topics that may be destroyed; all others must not be affected."""

NUMBERS = (-1, -2, 0, 1, 255, 2**15, 2**31 - 1, 2**31, 3_000_000_000, -(2**31) - 1, 2**63, 10**30, 1.5, 1e400)
TEXTS = ("", "x", "-1", "00", "3000000000", "..", "a/b", "ü", "\0", "x" * 300, "x" * 40_000, "9" * 5000)
RAW = (None, b"", b"null", b"[]", b"{}", b"0", b"-1", b"\xff\xfe", b"{", b'"\\ud800"', b"[" * 50_000, b" " * 200_000)


class Mutation(NamedTuple):
    """A znode that is written (created if absent), or deleted."""

    path: str
    data: bytes | None = None
    sequential: bool = False
    delete: bool = False

    async def apply(self, client: RegistryClient) -> None:
        """Apply the mutation, as far as ZooKeeper allows it."""
        try:
            if self.delete:
                await client.delete(self.path)
            elif self.sequential:
                await create_with_parents(client, Create(self.path, self.data, sequential=True))
            else:
                await self._put(client)
        except RegistryError:
            return

    async def _put(self, client: RegistryClient) -> None:
        try:
            await client.set(self.path, self.data or b"")
        except NoNode:
            await create_with_parents(client, Create(self.path, self.data))


class ZnodeSource:
    """Mutations under a seed; ``broker_ids`` are those of the cluster."""

    def __init__(self, rng: random.Random, broker_ids: list[int]) -> None:
        self._rng = rng
        self._broker_ids = broker_ids

    def next(self) -> Mutation:
        path, document, sequential = self._target()
        if not sequential and self._rng.random() < 0.1:
            return Mutation(path, delete=True)
        return Mutation(path, self._content(document), sequential)

    def _target(self) -> tuple[str, Any, bool]:
        """A path, the content that a correct tool would write there, and whether ZooKeeper numbers it."""
        rng = self._rng
        victim, partition = rng.choice(VICTIMS), rng.choice(["0", "1", "2", "00", "x", "3000000000"])
        broker_id: Any = rng.choice([*self._broker_ids, 77, 2**31, "x", "01", -1])
        name = rng.choice(["odd name", "x" * 250, "x" * 40_000, "ü", "other", victim])
        entity = rng.choice([f"topics/{victim}", "brokers/0", "brokers/<default>", "clients/c", "users/u", "ips/::1"])
        listed = [{"topic": victim, "partition": 0, "replicas": [0, 1]}]
        state = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 3, "isr": [1]}
        state["leader_recovery_state"] = 0
        topic = {
            "version": 3,
            "partitions": {partition: [0, 1], "0": [1]},
            "topic_id": "YTI9vJfzQOepxQr8vcaMoQ",
            "adding_replicas": {"0": [2]},
            "removing_replicas": {},
        }
        broker = {
            "version": 5,
            "host": "127.0.0.1",
            "port": 1,
            "jmx_port": -1,
            "timestamp": "1",
            "endpoints": ["PLAINTEXT://127.0.0.1:1"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "features": {"f": {"min_version": 1, "max_version": 2}},
            "rack": "r",
        }
        member = {"version": 1, "subscription": {victim: 1}, "pattern": "static", "timestamp": "1", "kafka-zk": {}}
        number = rng.choice(["2147483647", "9999999999", "x", "-1"])
        targets: list[tuple[str, Any, bool]] = [
            (f"/brokers/topics/{victim}", topic, False),
            (f"/brokers/topics/{name}", topic, False),
            (f"/brokers/topics/{victim}/partitions", None, False),
            (f"/brokers/topics/{victim}/partitions/{partition}", None, False),
            (f"/brokers/topics/{victim}/partitions/{partition}/state", state, False),
            (f"/brokers/ids/{broker_id}", broker, False),
            ("/brokers/seqid", "", False),
            ("/controller", {"version": 2, "brokerid": 1, "timestamp": "1", "kraftControllerEpoch": -1}, False),
            ("/controller_epoch", 3, False),
            (f"/admin/delete_topics/{name}", None, False),
            ("/admin/reassign_partitions", {"version": 1, "partitions": listed}, False),
            ("/admin/preferred_replica_election", {"version": 1, "partitions": listed}, False),
            (f"/config/{entity}", {"version": 1, "config": {"retention.ms": "1000", "max.connections": "9"}}, False),
            ("/config/topics", None, False),
            ("/config/changes/config_change_", {"version": 2, "entity_path": entity}, True),
            (f"/config/changes/config_change_{number}", {"version": 2, "entity_path": entity}, False),
            ("/isr_change_notification/isr_change_", {"version": 1, "partitions": listed}, True),
            ("/log_dir_event_notification/log_dir_event_", {"version": 1, "broker": 1, "event": 1}, True),
            ("/cluster/id", {"version": "1", "id": "2GFxDLooQ2i-dgl3mxZxWw"}, False),
            (
                "/latest_producer_id_block",
                {"version": 1, "broker": 0, "block_start": "0", "block_end": "999"},
                False,
            ),
            ("/feature", {"features": {"f": {"max_version_level": 1}}, "version": 2, "status": 1}, False),
            ("/consumers/g/ids/m", member, False),
            (f"/consumers/g/owners/{victim}/{partition}", "m-0", False),
            (f"/consumers/g/offsets/{victim}/{partition}", 7, False),
        ]
        return rng.choice(targets)

    def _content(self, document: Any) -> bytes | None:
        rng = self._rng
        if rng.random() < 0.25:
            return rng.choice([*RAW, rng.randbytes(rng.randrange(1, 60))])
        changed = document
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            changed = self._changed(changed)
        data = json.dumps(changed, ensure_ascii=False).encode(errors="replace")
        return data[: rng.randrange(len(data))] if rng.random() < 0.1 else data

    def _changed(self, value: Any) -> Any:
        """A copy in which one value is replaced, dropped or added."""
        rng = self._rng
        if isinstance(value, dict) and value and rng.random() < 0.85:
            key = rng.choice(sorted(value))
            if rng.random() < 0.2:
                return {other: kept for other, kept in value.items() if other != key}
            if rng.random() < 0.2:
                return {**value, str(self._leaf()): self._changed(value[key])}
            return {**value, key: self._changed(value[key])}
        if isinstance(value, list) and value and rng.random() < 0.7:
            index = rng.randrange(len(value))
            return [*value[:index], self._changed(value[index]), *value[index + 1 :]]
        return self._leaf()

    def _leaf(self) -> Any:
        choose = self._rng.choice
        return choose([choose(NUMBERS), choose(NUMBERS), choose(TEXTS), None, True, [], {}, [1, "x"], {"a": 1}])


ACL_VICTIMS = ("victim-0", "victim-1", "*-x", "vic")
ACL_TYPES = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User", "Any", "Unknown", "topic")


class SecurityZnodeSource(ZnodeSource):
    """Znodes of ACLs and quotas, and their announcements; none is for a topic, user or address with ``old`` in its
    name, for all of them or for a prefix of these.
    """

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, [0])

    def _target(self) -> tuple[str, Any, bool]:
        rng = self._rng
        return rng.choice([self._acl_target, self._quota_target])()

    def _acl_target(self) -> tuple[str, Any, bool]:
        rng = self._rng
        name, kind = rng.choice([*ACL_VICTIMS, "ü", "x" * 300, "a:b"]), rng.choice(ACL_TYPES)
        acl = {
            "principal": rng.choice(["User:mallory", "User:*", "User", "", "User:"]),
            "permissionType": rng.choice(["Allow", "Deny", "allow", "Any"]),
            "operation": rng.choice(["Read", "All", "Any", "Fly", "read"]),
            "host": rng.choice(["*", "127.0.0.1", "::1", ""]),
        }
        acls = {"version": 1, "acls": [acl, acl]}
        event = {"version": 1, "resourceType": kind.upper(), "name": name, "patternType": "PREFIXED"}
        number = rng.choice(["0000000001", "2147483647", "9999999999", "x", "-1"])
        targets: list[tuple[str, Any, bool]] = [
            (f"/kafka-acl/Topic/{name}", acls, False),
            (f"/kafka-acl/{kind}/{name}", acls, False),
            (f"/kafka-acl/{kind}", acls, False),
            (f"/kafka-acl-extended/prefixed/Topic/{name}", acls, False),
            (f"/kafka-acl-extended/{rng.choice(['prefixed', 'literal', 'match'])}/{kind}/{name}", acls, False),
            ("/kafka-acl-extended", {"version": 1}, False),
            ("/kafka-acl-changes/acl_changes_", f"{kind.upper()}:{name}", True),
            (f"/kafka-acl-changes/acl_changes_{number}", f"{kind.upper()}:{name}", False),
            ("/kafka-acl-extended-changes/acl_changes_", event, True),
            (f"/kafka-acl-extended-changes/acl_changes_{number}", event, False),
            ("/kafka-acl-changes", acls, False),
        ]
        return rng.choice(targets)

    def _quota_target(self) -> tuple[str, Any, bool]:
        rng = self._rng
        user = rng.choice(["victim", "a%40b", "%", "%zz", "ü", "x" * 300, "<default>"])
        client = rng.choice(["victim", "%00", "<default>", "x" * 300])
        address = rng.choice(["10.0.0.1", "::1", "<default>", "no such host", "%3A%3A2", "999.1.1.1"])
        entity = rng.choice([f"users/{user}", f"clients/{client}", f"ips/{address}", f"users/{user}/clients/{client}"])
        quotas = {
            "producer_byte_rate": rng.choice(["1000", "0", "-1", "1e400", "NaN", "9" * 400, "x"]),
            "consumer_byte_rate": "5",
            "request_percentage": rng.choice(["200", "Infinity", "0.0"]),
            "controller_mutation_rate": "1",
            "connection_creation_rate": rng.choice(["3", "-3", "3000000000", "1.5"]),
        }
        targets: list[tuple[str, Any, bool]] = [
            (f"/config/{entity}", {"version": 1, "config": quotas}, False),
            (f"/config/{entity}", {"version": 1, "config": quotas}, False),
            (f"/config/users/{user}/clients", None, False),
            ("/config/changes/config_change_", {"version": 2, "entity_path": entity}, True),
            (
                "/config/changes/config_change_",
                {"version": 1, "entity_type": entity.partition("/")[0], "entity_name": user},
                True,
            ),
        ]
        return rng.choice(targets)

    def _content(self, document: Any) -> bytes | None:
        if isinstance(document, str) and self._rng.random() < 0.7:
            return document.encode()  # an announcement in plain text
        return super()._content(document)
