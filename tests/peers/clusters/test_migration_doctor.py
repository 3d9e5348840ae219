"""``kafka-zk migration`` examines Apache Kafka 3.9.1 on its way to KRaft: the traps, and each phase.

The commands run as processes, as an operator runs them, and change nothing.
"""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions, make_digest_acl_credential

from kafka_zk.migration.mode import Mode
from kafka_zk.migration.phase import Phase
from tests.integration.processes import kafka_zk
from tests.peers import wire_probe
from tests.peers.clusters.kraft_migration import KRaftController, MigratingBroker
from tests.peers.processes import wait_until

BROKER_ID = 1
_OVERRIDES = {"inter.broker.protocol.version": "3.9", "offsets.topic.num.partitions": "1"}
_TIMEOUT_S = 120
_NOT_COPIED = {
    "version": 0, "kraft_metadata_offset": -1, "kraft_controller_id": -1, "kraft_metadata_epoch": -1,
    "kraft_controller_epoch": -1,
}  # fmt: skip
_LEFT_OVER = json.dumps({**_NOT_COPIED, "kraft_metadata_offset": 131}).encode()
_BAD_SCRAM = b'{"version":1,"config":{"SCRAM-SHA-256":"nonsense"}}'
_DOCTOR = "doctor", "secret"


class Doctor:
    """Both commands with the same options."""

    def __init__(self, zookeeper: str, broker: MigratingBroker) -> None:
        self._where = ("--zookeeper", zookeeper, "--bootstrap-server", f"127.0.0.1:{broker.port}")

    def check(self, *more: str) -> dict[str, list[str]]:
        """The traps, by rule."""
        done = kafka_zk("migration", "check", *self._where, *more, "--json", timeout_s=_TIMEOUT_S)
        findings = json.loads(done.stdout)
        traps = {each["rule"]: each["seen"] for each in findings if each["verdict"] == "trap"}
        assert done.returncode == (1 if traps else 2 if any(each["not_checked"] for each in findings) else 0)
        return traps

    def status(self) -> dict[str, Any]:
        done = kafka_zk("migration", "status", *self._where, "--json", timeout_s=_TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def diff(self, *more: str) -> list[dict[str, str]]:
        """The differences."""
        done = kafka_zk("migration", "diff", *self._where, *more, "--json", timeout_s=_TIMEOUT_S)
        document = json.loads(done.stdout)
        assert document["not_compared"] == [] and document["log"]["migration_state"] == "MIGRATION"
        found: list[dict[str, str]] = document["differences"]
        assert done.returncode == (1 if found else 0)
        return found

    def sees(self, phase: Phase, mode: Mode) -> dict[str, Any]:
        """Wait until the status shows this phase, and the broker's mode."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found.append(self.status())
            is_contradicted = found[-1]["confirmed"]["fits"] is False  # the log is read slightly later than the rest
            return (found[-1]["phase"], found[-1]["brokers"], is_contradicted) == (phase, {str(BROKER_ID): mode}, False)

        wait_until(is_there, _TIMEOUT_S, f"the phase {phase}")
        return found[-1]


@contextlib.contextmanager
def znode(client: KazooClient, path: str, data: bytes, *, top: str = "") -> Iterator[None]:
    """Create a znode for the duration of the block. ``top``: the highest parent that is created for it."""
    client.create(path, data, makepath=True)
    yield
    client.delete(top or path, recursive=True)


@contextlib.contextmanager
def protected(client: KazooClient, path: str) -> Iterator[None]:
    owner = make_digest_acl_credential(*_DOCTOR)
    client.add_auth("digest", ":".join(_DOCTOR))
    client.set_acls(path, [ACL(Permissions.ALL, Id("digest", owner)), ACL(Permissions.READ, Id("world", "anyone"))])
    yield
    client.set_acls(path, OPEN_ACL_UNSAFE)


Provoke = Callable[[KazooClient], contextlib.AbstractContextManager[None]]
TRAPS: dict[str, Provoke] = {
    "migration-znode-empty": lambda client: znode(client, "/migration", b""),
    "migration-znode-left-over": lambda client: znode(client, "/migration", _LEFT_OVER),
    "malformed-configs": lambda client: znode(client, "/config/topics/broken", b"{"),
    "malformed-entities": lambda client: znode(client, "/config/users/alice", _BAD_SCRAM),
    "malformed-acls": lambda client: znode(client, "/kafka-acl/Topic/orders", b'{"version":1,"acls":[{}]}'),
    "offsets-in-zookeeper": lambda client: znode(
        client, "/consumers/readers/offsets/orders/0", b"7", top="/consumers/readers"
    ),
    "protected-znodes": lambda client: protected(client, "/isr_change_notification"),
}
"""Traps that can be provoked while the broker runs in ZooKeeper mode, and undone."""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[MigratingBroker, KRaftController]]:
    controller = KRaftController(tmp_path)
    broker = MigratingBroker(tmp_path, BROKER_ID, controller.quorum)
    yield broker, controller
    broker.kill()
    controller.kill()


@contextlib.contextmanager
def connected(zookeeper: str) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.mark.peers
def test_the_way_to_kraft(
    peer_zookeeper: str, nodes: tuple[MigratingBroker, KRaftController], tmp_path: Path
) -> None:
    zookeeper, (broker, controller) = f"{peer_zookeeper}/doctor", nodes
    doctor = Doctor(zookeeper, broker)
    broker.start_before_the_migration(zookeeper, _OVERRIDES)
    wait_until(lambda: wire_probe.is_ready(broker.port), _TIMEOUT_S, "the broker")
    assert doctor.check() == {}
    doctor.sees(Phase.NONE, Mode.ZOOKEEPER)

    planned = tmp_path / "planned.properties"
    planned.write_text("node.id=3000\nzookeeper.metadata.migration.enable=true\n")
    with connected(zookeeper) as client:
        cluster_id = json.loads(client.get("/cluster/id")[0])["id"]
        for name, provoke in TRAPS.items():
            with provoke(client):
                assert list(doctor.check("--controller-properties", str(planned))) == [name]

    controller.start(cluster_id, zookeeper)
    broker.stop()
    broker.start_with_zookeeper(zookeeper, _OVERRIDES)
    assert doctor.sees(Phase.DUAL_WRITE, Mode.MIGRATION)["confirmed"]["fits"]
    assert doctor.check() == {}
    assert doctor.diff() == []
    with connected(zookeeper) as client, znode(client, "/config/topics/broken", b"{"):
        (found,) = doctor.diff("--controller-log-dir", str(controller.log_dir))
        assert found["name"] == "topic broken" and found["zookeeper"].startswith("malformed")

    broker.stop()
    broker.start_with_kraft(_OVERRIDES)
    moved = doctor.sees(Phase.BROKERS_MOVED, Mode.KRAFT)
    assert moved["continue"]["safe"] is None and moved["roll_back"]["safe"]
    assert doctor.check() == {}

    controller.stop()
    controller.start()
    done = doctor.sees(Phase.FINALIZED, Mode.KRAFT)
    assert done["confirmed"]["fits"] and done["continue"]["safe"] and not done["roll_back"]["safe"]
    assert doctor.check() == {}


@pytest.mark.soak
def test_traps_on_the_way(
    peer_zookeeper: str, nodes: tuple[MigratingBroker, KRaftController], tmp_path: Path
) -> None:
    """The traps are controllers without the flag, controllers that are gone, and a migration that is finalised too
    early."""
    zookeeper, (broker, controller) = f"{peer_zookeeper}/traps", nodes
    doctor = Doctor(zookeeper, broker)
    broker.start_before_the_migration(zookeeper, _OVERRIDES)
    wait_until(lambda: wire_probe.is_ready(broker.port), _TIMEOUT_S, "the broker")
    with connected(zookeeper) as client:
        cluster_id = json.loads(client.get("/cluster/id")[0])["id"]

    controller.start(cluster_id)
    with_flag = tmp_path / "planned.properties"
    voters = controller.quorum["controller.quorum.voters"]
    with_flag.write_text(f"zookeeper.metadata.migration.enable=true\ncontroller.quorum.voters={voters}\n")
    wait_until(
        lambda: list(doctor.check("--controller-properties", str(with_flag))) == ["controllers-without-flag"],
        _TIMEOUT_S, "the controller",
    )  # fmt: skip
    controller.stop()
    shutil.rmtree(controller.log_dir)
    controller.log_dir.mkdir()
    controller.start(cluster_id, zookeeper)
    broker.stop()
    broker.start_with_zookeeper(zookeeper, _OVERRIDES)
    doctor.sees(Phase.DUAL_WRITE, Mode.MIGRATION)

    controller.stop()
    halfway = doctor.sees(Phase.ROLLED_BACK_HALFWAY, Mode.MIGRATION)
    assert halfway["continue"]["safe"] is False and list(doctor.check()) == ["controller-left-over"]
    controller.start("", zookeeper)
    doctor.sees(Phase.DUAL_WRITE, Mode.MIGRATION)

    controller.stop()
    controller.start()
    early = doctor.sees(Phase.FINALIZED, Mode.MIGRATION)
    assert "broker 1 is in migration mode" in early["continue"]["text"] and not early["roll_back"]["safe"]
    assert list(doctor.check()) == ["finalized-too-early"]
