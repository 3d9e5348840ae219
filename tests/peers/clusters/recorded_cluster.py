"""A small cluster of Apache Kafka of any release, which ``record_migration`` brings into a state and records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from kafka_zk.migration.facts import ClusterFacts, Unknown
from kafka_zk.migration.phase import status
from tests.kafka_zk.migration.expected import EXPECTED, outcome
from tests.kafka_zk.migration.recording import Recording, facts_of
from tests.peers import apache_kafka, jars, java, wire_probe
from tests.peers.clusters.kraft_migration import Node
from tests.peers.clusters.recorder import capture
from tests.peers.processes import wait_until

CONTROLLER_ID = 3000
TOPIC = "orders"
FLAG = {"zookeeper.metadata.migration.enable": "true"}
_SMALL = ("-Xmx384M", "-Dzookeeper.sasl.client.canonicalize.hostname=false")
_TIMEOUT_S = 90
_ONE = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


class Lab:
    """One ZooKeeper, brokers and controllers. All processes end with the block of ``laboratory``."""

    def __init__(self, folder: Path, release: str, jvm_flags: tuple[str, ...]) -> None:
        self.folder, self.release = folder, release
        self.jvm_flags = jvm_flags
        self.server = apache_kafka.start_zookeeper(
            folder / "zookeeper", force_sync=False, version=release, jvm_flags=jvm_flags
        )
        self.zookeeper = self.server.connect_string
        self.nodes: dict[int, Node] = {}
        self.class_path = ""

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()
        self.server.kill()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{next(node.port for number, node in self.nodes.items() if number < CONTROLLER_ID)}"

    def quorum(self, controller_id: int = CONTROLLER_ID) -> dict[str, str]:
        protocol = "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        return {
            "controller.quorum.voters": f"{controller_id}@127.0.0.1:{self._node(CONTROLLER_ID).port}",
            "controller.listener.names": "CONTROLLER", "listener.security.protocol.map": protocol,
        }  # fmt: skip

    def port(self, node_id: int) -> int:
        return self._node(node_id).port

    # --- nodes ---

    def broker(self, broker_id: int = 1, *without: str, mode: str = "", **given: Mapping[str, str]) -> Node:
        """``mode``: "" with ZooKeeper, "migration" or "KRaft". Keys in ``without`` are left out."""
        node = self._node(broker_id)
        more = {**_ONE, **given.get("keys", {})}
        if mode:
            more = {**self.quorum(), **more, **(FLAG if mode == "migration" else {})}
        if mode == "KRaft":
            more |= {"process.roles": "broker", "node.id": str(broker_id)}
            without += ("broker.id", "inter.broker.protocol.version", "zookeeper.connect",
                        "zookeeper.connection.timeout.ms", "zookeeper.set.acl")  # fmt: skip
        keys = apache_kafka.server_properties(broker_id, node.port, node.log_dir, self.zookeeper, more)
        self._run(node, {key: value for key, value in keys.items() if key not in without})
        assert node.process is not None
        if "SASL" in keys["listeners"]:
            node.process.wait_ready(lambda: node.says("started (kafka.server"), _TIMEOUT_S)
        else:
            node.process.wait_ready(lambda: wire_probe.is_ready(node.port), _TIMEOUT_S)
        return node

    def controller(
        self, *without: str, cluster_id: str = "", node_id: int = CONTROLLER_ID, keys: Mapping[str, str] | None = None,
        format_with: tuple[str, ...] = (),
    ) -> Node:  # fmt: skip
        """Start a controller with the migration flag."""
        node = self._node(CONTROLLER_ID)
        all_keys = {
            "process.roles": "controller", "node.id": str(node_id), "log.dirs": str(node.log_dir),
            "listeners": f"CONTROLLER://127.0.0.1:{node.port}", "zookeeper.connect": self.zookeeper,
            "inter.broker.listener.name": "PLAINTEXT", **self.quorum(node_id), **FLAG, **(keys or {}),
        }  # fmt: skip
        kept = {key: value for key, value in all_keys.items() if key not in without}
        path = node.write(kept)
        if not (node.log_dir / "meta.properties").exists():
            java.run_tool(self.release, "kafka.tools.StorageTool", [
                "format", f"--cluster-id={cluster_id or self.cluster_id}", "-c", str(path), *format_with,
            ])  # fmt: skip
        self._run(node, kept)
        assert node.process is not None
        node.process.wait_ready(lambda: node.says("Kafka Server started"), _TIMEOUT_S)
        return node

    def stop(self, *node_ids: int) -> None:
        """Stop a broker. If it must be killed, it stays registered until its session ends."""
        for node_id in node_ids:
            self.nodes[node_id].stop()
            wait_until(partial(self._is_gone, node_id), _TIMEOUT_S, f"the end of the session of {node_id}")

    def _is_gone(self, node_id: int) -> bool:
        with self.client() as client:
            return client.exists(f"/brokers/ids/{node_id}") is None

    def _node(self, node_id: int) -> Node:
        if node_id not in self.nodes:
            self.nodes[node_id] = Node(self.folder, f"node-{node_id}")
        return self.nodes[node_id]

    def _run(self, node: Node, properties: Mapping[str, str]) -> None:
        (node.folder / "node.out").unlink(missing_ok=True)  # removes the broker's earlier output
        java_command, *rest = apache_kafka.broker_command(node.write(properties), self.release)
        kept = [each for each in rest if not each.startswith("-Xm")]
        if self.class_path:
            kept[kept.index("-cp") + 1] += f":{self.class_path}"
        node.run([java_command, *_SMALL, *self.jvm_flags, *kept])

    # --- the content of the cluster ---

    @contextmanager
    def client(self) -> Iterator[KazooClient]:
        client = KazooClient(self.zookeeper, timeout=10)
        client.start()
        try:
            yield client
        finally:
            client.stop()
            client.close()

    @property
    def cluster_id(self) -> str:
        with self.client() as client:
            found: str = json.loads(client.get("/cluster/id")[0])["id"]
            return found

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def topic(self, name: str = TOPIC, assignment: list[list[int]] | None = None, **configs: str) -> None:
        keys = {key.replace("_", "."): value for key, value in configs.items()}
        replicas = assignment or [[1]]
        new = NewTopic(name, num_partitions=len(replicas), replica_assignment=replicas, config=keys)
        admin = self.admin()
        admin.create_topics([new])[name].result(_TIMEOUT_S)

    def set_configs(self, kind: ResourceType, name: str, configs: dict[str, str]) -> None:
        resource = ConfigResource(kind, name, set_config=configs)
        admin = self.admin()
        admin.alter_configs([resource])[resource].result(_TIMEOUT_S)

    # --- recordings ---

    def record(self, name: str, **given: Any) -> Recording:
        """Wait until the cluster is in the expected state. The last state is stored in any case."""
        kept: list[Recording] = []

        def is_expected() -> bool:
            kept[:] = [self._capture(**given)]
            facts = facts_of(kept[0])
            return outcome(facts) == EXPECTED[name] and self._brokers_respond(facts)

        try:
            wait_until(is_expected, given.pop("timeout_s", 40), name, interval_s=0.5)
            said = "as expected"
        except TimeoutError:
            said = f"UNEXPECTED {outcome(facts_of(kept[0]))}, wanted {EXPECTED[name]}"
        kept[0].save(name)
        print(f"{name}: {said}; {status(facts_of(kept[0])).sign}", flush=True)
        return kept[0]

    def _brokers_respond(self, facts: ClusterFacts) -> bool:
        running = {node_id for node_id, node in self.nodes.items() if node.is_running}
        brokers = () if isinstance(facts.brokers, Unknown) else facts.brokers
        return not any(isinstance(each.api, Unknown) and each.node_id in running for each in brokers)

    def _capture(self, **given: Any) -> Recording:
        return capture(self.release, self.zookeeper, given.pop("bootstrap", self.bootstrap), **given)


@contextmanager
def laboratory(folder: Path, release: str = jars.ORACLE_VERSION, *, jvm_flags: tuple[str, ...] = ()) -> Iterator[Lab]:
    lab = Lab(folder, release, jvm_flags)
    try:
        yield lab
    finally:
        lab.close()
