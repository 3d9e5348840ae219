"""``kafka-zk migration rehearse`` with the files of a real ZooKeeper, to which Apache Kafka 3.9.1 wrote."""

import json
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AdminClient
from confluent_kafka.admin import AclOperation as Operation
from confluent_kafka.admin import AclPermissionType as Permission
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Resource
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from tests.integration.processes import ENVIRON, kafka_zk
from tests.peers import apache_kafka, jars, wire_probe
from tests.peers.clusters.kraft_migration import MigratingBroker
from tests.peers.processes import wait_until

pytestmark = pytest.mark.peers

_OVERRIDES = {
    "inter.broker.protocol.version": "3.9",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_COPIED = b'"advertised.listeners":"PLAINTEXT://127.0.0.1:1"'
_TIMEOUT_S = 120
_REHEARSAL_S = 300
_ACL = AclBinding(
    Resource.TOPIC, "orders", Pattern.LITERAL, "User:alice", "10.0.0.9", Operation.READ, Permission.ALLOW
)  # fmt: skip


def _written(folder: Path) -> tuple[Path, list[int]]:
    """The dataDir of a ZooKeeper that was killed with its broker, and the ports of both."""
    zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper", force_sync=False)
    broker = MigratingBroker(folder, 1, {})
    try:
        broker.start_before_the_migration(f"{zookeeper.connect_string}/k", _OVERRIDES)
        wait_until(lambda: wire_probe.is_ready(broker.port), _TIMEOUT_S, "the broker")
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 2})
        admin.create_topics([NewTopic("orders", 3, 1, config={"retention.ms": "-1"})])["orders"].result(_TIMEOUT_S)
        admin.create_acls([_ACL])[_ACL].result(_TIMEOUT_S)
        assert wire_probe.set_default_broker_config(broker.port, "message.max.bytes", "1500000") == 0
        _set_listeners(f"{zookeeper.connect_string}/k", broker.port)
    finally:
        broker.kill()
        zookeeper.kill()
    return folder / "zookeeper" / "data", [broker.port, int(zookeeper.connect_string.rpartition(":")[2])]


def _set_listeners(zookeeper: str, port: int) -> None:
    """Set the broker's dynamic listeners without notifying the broker."""
    address = f"PLAINTEXT://127.0.0.1:{port}"
    client = KazooClient(zookeeper)
    client.start()
    try:
        document = {"version": 1, "config": {"listeners": address, "advertised.listeners": address}}
        client.create("/config/brokers/1", json.dumps(document, separators=(",", ":")).encode())
    finally:
        client.stop()
        client.close()


def _copies(work: Path) -> bytes:
    """The snapshots from which the rehearsal's ZooKeeper runs."""
    return b"".join(path.read_bytes() for path in work.glob("*/forward/zookeeper/data/version-2/snapshot.*"))


def _listening(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", port))
    found.listen()
    found.setblocking(False)
    return found


@pytest.mark.weekly
def test_a_rehearsal_reaches_its_end_and_not_the_cluster(
    peer_tools: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rehearsal has three controllers and stand-ins; the second has real brokers with the settings of the
    cluster's brokers.
    """
    data_dir, ports = _written(tmp_path)
    before = {path: path.read_bytes() for path in (data_dir / "version-2").iterdir()}
    original = [_listening(port) for port in ports]
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setitem(ENVIRON, "TMPDIR", str(work))
    rehearse = (
        "migration", "rehearse", "--snapshot", str(data_dir), "--kafka-dir", str(jars.jars(jars.ORACLE_VERSION)),
        "--run", "forward", "--run", "back-from-dual-write", "--json",
    )  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(kafka_zk, *rehearse, timeout_s=_REHEARSAL_S)
        wait_until(lambda: running.done() or _COPIED in _copies(work), _TIMEOUT_S, "the copy")
        copies, done = _copies(work), running.result()
    assert _COPIED in copies and not [port for port in ports if f":{port}".encode() in copies]
    with_brokers = ("--brokers-from", str(tmp_path), "--controllers", "1")
    real = kafka_zk(*rehearse, *with_brokers, timeout_s=_REHEARSAL_S)
    for each in original:
        with each, pytest.raises(BlockingIOError):
            each.accept()

    report, of_real = _checked(done), _checked(real)
    assert report["source"]["chroot"] == "/k" and report["source"]["topics"] == 1
    assert report["source"]["brokers"] == report["source"]["registered_brokers"] == [1]
    assert (report["brokers"], of_real["brokers"]) == ("stand-ins", "real brokers")
    assert report["runs"][0]["steps"][1]["note"] == "controllers 3000, 3001, 3002 waiting for brokers"
    assert "STOP_REPLICA 1" in report["runs"][0]["steps"][-1]["note"], "the topic of the rehearsal was deleted"
    assert of_real["runs"][1]["steps"][-1]["note"] == "the brokers have returned to a controller of ZooKeeper"
    assert {path: path.read_bytes() for path in (data_dir / "version-2").iterdir()} == before
    assert list(work.iterdir()) == []


def _checked(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The report of a rehearsal in which nothing broke."""
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["traps"] == []
    assert {run["run"]: [step["phase"] for step in run["steps"]] for run in report["runs"]} == {
        "forward": ["ZooKeeper on the copy", "waiting", "copying", "dual write", "brokers moved", "finalised"],
        "back from dual write": ["ZooKeeper on the copy", "waiting", "copying", "dual write", "rolled back"],
    }
    assert {step["result"] for run in report["runs"] for step in run["steps"]} == {"ok"}
    return report
