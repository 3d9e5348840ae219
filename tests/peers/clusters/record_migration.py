"""``python -m tests.peers.clusters.record_migration [NAME …]`` records real clusters for the tests of the doctor.

It starts Apache Kafka 2.4 to 3.9 with ZooKeeper and brings it into each state of
``tests/kafka_zk/migration/expected.py``. It takes ten minutes, and is not part of any suite.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import ResourceType

from kafka_zk.embedded.ports import free_port
from tests.peers import apache_kafka, jars, java
from tests.peers.clusters.record_secured import secured
from tests.peers.clusters.recorded_cluster import CONTROLLER_ID, FLAG, TOPIC, Lab, laboratory
from tests.peers.processes import wait_until

_QUOTA = b'{"version":1,"config":{"producer_byte_rate":"1024"}}'
_ACL = b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}'
_TOKEN = "/delegation_token/tokens/one"
_SCRAM_USER = (
    b'{"version":1,"config":{"SCRAM-SHA-256":"salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=4096"}}'
)
_MALFORMED = {
    "/migration": b"",
    "/brokers/topics/odd": b'{"version":1}',
    "/config/topics/broken": b"{",
    "/config/clients/app": b'{"version":1,"config":{"producer_byte_rate":"1024.0"}}',
    "/config/users/carol": b'{"version":1,"config":{"SCRAM-SHA-256":"nonsense"}}',
    "/kafka-acl/Topic/payments": b'{"version":1,"acls":[{}]}',
    "/consumers/readers/offsets/orders/0": b"7",
}
_NO_LONGER_TIERED = b'{"version":1,"config":{"remote.storage.enable":"false","local.retention.ms":"1000"}}'
_ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
_MISTAKES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "controller-without-flag": (("zookeeper.metadata.migration.enable", "zookeeper.connect"), {}),
    "controller-of-another-cluster": ((), {"cluster_id": "MkU3OEVBNTcwNTJENDM2Qg"}),
    "controller-with-id-of-a-broker": ((), {"node_id": 1}),
}
"""Name -> keys that are left out, and arguments of the controller."""

_MOVE = b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]}'


def _fill(lab: Lab) -> None:
    """Create the content of every cluster: a compacted topic, a configuration of a broker, a quota, an ACL."""
    lab.topic(cleanup_policy="compact")
    lab.topic("payments")
    lab.set_configs(ResourceType.BROKER, "1", {"log.cleaner.threads": "2"})
    with lab.client() as client:
        client.create("/config/users/alice", _QUOTA, makepath=True)
        client.create("/kafka-acl/Topic/orders", _ACL, makepath=True)


def clean(release: str, folder: Path) -> None:
    """A clean cluster of a release; then with a token and a user of SCRAM, or with two log dirs and an endless move."""
    with laboratory(folder, release) as lab:
        lab.broker()
        _fill(lab)
        lab.record(f"release-{release}", log_dirs={"/data": lab.nodes[1].log_dir})
        if release in ("3.4.1", "3.6.2"):
            with lab.client() as client:
                client.create(_TOKEN, makepath=True)
                client.set("/config/users/alice", _SCRAM_USER)
            lab.record(f"tokens-{release}")
        if release in ("3.6.2", "3.7.2"):
            lab.stop(1)
            lab.broker(2).kill()  # the broker stays registered until its session ends
            lab.broker(keys={"log.dirs": f"{lab.nodes[1].log_dir},{lab.nodes[1].folder / 'more'}"})
            with lab.client() as client:
                client.create("/admin/reassign_partitions", _MOVE)
            lab.record(f"two-dirs-and-a-move-{release}")


def malformed(folder: Path) -> None:
    """Znodes that Kafka cannot parse, and data that KRaft does not take over."""
    with laboratory(folder) as lab:
        lab.broker()
        _fill(lab)
        lab.stop(1)  # the broker does not start while the user's znode exists
        with lab.client() as client:
            for path, data in _MALFORMED.items():
                client.create(path, data, makepath=True)
            client.create("/brokers/ids/1", client.get("/brokers/seqid")[0], ephemeral=True)
            lab.record("malformed")


def broker_down(folder: Path) -> None:
    """One of two brokers is down."""
    with laboratory(folder) as lab:
        lab.broker(1)
        lab.broker(2)
        lab.topic("both", [[1, 2]])
        for name in ("second", "dying"):
            lab.topic(name, [[2]])
        lab.stop(2)
        with lab.client() as client:
            client.create("/admin/delete_topics/dying")
            lab.record("broker-down")
            client.delete("/controller_epoch")
            lab.record("controller-epoch-missing")


def settings(folder: Path) -> None:
    """Settings of brokers that KRaft does not take over, and planned files with mistakes."""
    with laboratory(folder) as lab:
        lab.class_path = _plugins(folder)
        more = folder / "more"
        lab.broker(1001, "broker.id", keys={
            "inter.broker.protocol.version": "3.5", "alter.config.policy.class.name": "Policy",
            "log.dirs": f"{folder / 'data'},{more}", "password.encoder.secret": "secret",
            "authorizer.class.name": _ACL_AUTHORIZER, "super.users": "User:ANONYMOUS",
            **_control_plane(lab.port(1001)),
        })  # fmt: skip
        lab.set_configs(ResourceType.BROKER, "1001", {"listener.name.plaintext.ssl.key.password": "key-secret"})
        with lab.client() as client:
            client.create(_TOKEN, makepath=True)
        (folder / "empty").mkdir()
        planned = folder / "planned"
        files = {
            "controller.properties": {"node.id": "3000", "process.roles": "controller", **lab.quorum(), **FLAG},
            "broker.properties": {"node.id": "1001", "process.roles": "broker", "super.users": "User:admin"},
        }
        for name, keys in files.items():
            apache_kafka.write_properties(planned / name, keys)
        lab.record(
            "settings",
            controller_files={"controller.properties": planned / "controller.properties"},
            broker_files={"broker.properties": planned / "broker.properties"},
            log_dirs={"/more": more, "/empty": folder / "empty"},
        )


def tiered(folder: Path) -> None:
    """A topic that was tiered, on a broker with tiered storage."""
    with laboratory(folder) as lab:
        lab.class_path = _plugins(folder)
        lab.broker(keys={
            "remote.log.storage.system.enable": "true", "remote.log.storage.manager.class.name": "EmptyTier",
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        })  # fmt: skip
        lab.topic()
        with lab.client() as client:
            client.set(f"/config/topics/{TOPIC}", _NO_LONGER_TIERED)
        lab.record("tiered")


def forward(folder: Path) -> None:
    """The way to KRaft with one broker and one controller; the rollback that is given up half-way."""
    with laboratory(folder) as lab:
        lab.broker()
        _fill(lab)
        lab.controller()
        lab.record("waiting-for-a-restart", **_controller_of(lab))
        lab.stop(1)
        lab.broker(mode="migration", keys={"inter.broker.protocol.version": "3.4"})
        lab.record("waiting-with-an-older-protocol", **_controller_of(lab))
        lab.stop(1)
        lab.broker(mode="migration")
        lab.record("dual-write", **_controller_of(lab))
        with lab.client() as client:
            client.delete("/controller")
            lab.record("controller-deleted-too-early", **_controller_of(lab))
        lab.stop(CONTROLLER_ID)
        lab.controller()
        lab.record("dual-write-again", **_controller_of(lab))
        lab.stop(CONTROLLER_ID)
        lab.controller("zookeeper.metadata.migration.enable", "zookeeper.connect")
        lab.record("finalised-too-early", **_controller_of(lab))
        lab.stop(1)
        lab.broker(mode="KRaft")
        lab.record("finalised", **_controller_of(lab))


def back(folder: Path) -> None:
    """The way back from each stage, and what it leaves behind."""
    with laboratory(folder) as lab:
        lab.broker()
        _fill(lab)
        lab.controller()
        _wait(lab)
        lab.stop(CONTROLLER_ID)
        lab.record("back-from-waiting", **_controller_of(lab))
        lab.controller()
        lab.stop(1)
        lab.broker(mode="migration")
        lab.record("second-attempt", **_controller_of(lab))
        lab.stop(1)
        lab.broker(mode="KRaft")
        lab.record("brokers-moved", **_controller_of(lab))
        lab.stop(1)
        lab.broker(mode="migration")
        lab.record("back-in-migration-mode", **_controller_of(lab))
        lab.stop(CONTROLLER_ID)
        with lab.client() as client:
            lab.record("controllers-stopped", **_controller_of(lab))
            client.delete("/controller")
            lab.record("migration-not-deleted", **_controller_of(lab))
            client.delete("/migration")
            lab.record("rolled-back-to-migration-mode", **_controller_of(lab))
            lab.stop(1)
            lab.broker()
            lab.record("rolled-back", **_controller_of(lab))
        lab.controller()
        lab.record("old-log-after-a-rollback", **_controller_of(lab))


def epochs(folder: Path) -> None:
    """Controllers that were restarted often before the copy, and the rollback that follows."""
    with laboratory(folder) as lab:
        lab.broker()
        _fill(lab)
        for _ in range(7):
            lab.controller()
            _wait(lab)
            lab.stop(CONTROLLER_ID)
        lab.controller()
        lab.stop(1)
        lab.broker(mode="migration")
        lab.record("epoch-ahead", **_controller_of(lab))
        lab.topic("written-by-the-quorum")
        lab.stop(CONTROLLER_ID)
        with lab.client() as client:
            client.delete("/controller")
            client.delete("/migration")
        lab.stop(1)
        lab.broker()
        lab.record("epoch-behind", **_controller_of(lab))


def controllers(folder: Path) -> None:
    """Controllers with a mistake, each formatted again."""
    with laboratory(folder) as lab:
        lab.broker()
        _fill(lab)
        for name, changes in _MISTAKES.items():
            without, given = changes
            lab.controller(*without, **given)
            lab.record(name, **_controller_of(lab))
            lab.stop(CONTROLLER_ID)
            shutil.rmtree(lab.nodes[CONTROLLER_ID].log_dir)
            lab.nodes[CONTROLLER_ID].log_dir.mkdir()
            with lab.client() as client:
                client.delete("/migration") if client.exists("/migration") else None


def copy_aborted(folder: Path) -> None:
    """A quota that cannot be parsed: the controller claims /controller, and exits."""
    with laboratory(folder) as lab:
        lab.broker(mode="migration")
        _fill(lab)
        with lab.client() as client:
            client.create("/config/clients/app", b'{"version":1,"config":{"producer_byte_rate":"fast"}}')
        node = lab.controller()
        wait_until(lambda: not node.is_running, 60, "the end of the controller")
        lab.record("copy-aborted", **_controller_of(lab))


def dynamic_quorum(folder: Path) -> None:
    """Controllers whose voters are in the metadata log (KIP-853)."""
    with laboratory(folder) as lab:
        lab.broker()
        _fill(lab)
        quorum = {"controller.quorum.bootstrap.servers": f"127.0.0.1:{lab.port(CONTROLLER_ID)}"}
        lab.controller("controller.quorum.voters", keys=quorum, format_with=("--standalone",))
        lab.record("dynamic-quorum-waiting", **_controller_of(lab))
        lab.stop(1)
        lab.broker(1, "controller.quorum.voters", mode="migration", keys=quorum)
        lab.record("dynamic-quorum-dual-write")


def _wait(lab: Lab) -> None:
    node = lab.nodes[CONTROLLER_ID]
    wait_until(lambda: node.says("No brokers are known to KRaft"), 60, "the controller")


def _controller_of(lab: Lab) -> dict[str, dict[str, Path]]:
    """The file and the folder of a controller."""
    node = lab.nodes[CONTROLLER_ID]
    return {
        "controller_files": {"controller.properties": node.folder / "server.properties"},
        "log_dirs": {"/controller": node.log_dir},
    }


def _control_plane(port: int) -> dict[str, str]:
    """A separate listener for the controller's requests, which KRaft does not support."""
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROL_PLANE://127.0.0.1:{free_port()}"
    return {
        "listeners": listeners, "advertised.listeners": listeners, "control.plane.listener.name": "CONTROL_PLANE",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL_PLANE:PLAINTEXT",
    }  # fmt: skip


def _plugins(folder: Path) -> str:
    """A folder with the compiled classes of tests/peers/java/plugins."""
    compiler = ["javac", "-nowarn", "-d", str(folder / "plugins"), "-cp", jars.class_path(jars.ORACLE_VERSION)]
    java.run_to_its_end([*compiler, *map(str, (java.SOURCES / "plugins").glob("*.java"))])
    return str(folder / "plugins")


SCENARIOS: dict[str, Callable[[Path], None]] = {
    **{release: partial(clean, release) for release in (*jars.RECORDED_VERSIONS, jars.ORACLE_VERSION)},
    **{
        scenario.__name__: scenario
        for scenario in (
            malformed, broker_down, settings, tiered, forward, back, epochs, controllers, copy_aborted, dynamic_quorum,
            secured,
        )
    },
}  # fmt: skip


def main() -> None:
    apache_kafka.start_quickly()
    for name in sys.argv[1:] or SCENARIOS:
        with tempfile.TemporaryDirectory(prefix="record-") as folder:
            SCENARIOS[name](Path(folder))


if __name__ == "__main__":
    main()
