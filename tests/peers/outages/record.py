"""Records outages of a real cluster of Apache Kafka 3.9.1 as small folders for tests: ZooKeeper's transaction log and
the brokers' logs. ``python -m tests.peers.outages.record FOLDER [NAME …]``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from kafka_zk.embedded.ports import free_port
from tests.peers import apache_kafka, wire_probe
from tests.peers.clusters.kraft_migration import ENDED, MIGRATED, KRaftController, MigratingBroker
from tests.peers.clusters.mixed_cluster import small_kafka
from tests.peers.processes import ServerProcess, wait_until

_TIMEOUT_S = 120
_SESSION_MS = "4000"
_PAUSE_S = 3.0
"""The time between two acts, so that a reader can distinguish their effects."""
_STALL_S = 8.0
"""Twice the session timeout."""
_OVERRIDES = {
    "zookeeper.session.timeout.ms": _SESSION_MS, "inter.broker.protocol.version": "3.9",
    "offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "2", "replica.lag.time.max.ms": "4000",
    "leader.imbalance.check.interval.seconds": "5", "controlled.shutdown.enable": "true",
}  # fmt: skip
_LOGS = ("server.log", "controller.log", "state-change.log")


class _Broker:
    """``dirs``: its log.dirs."""

    def __init__(
        self, folder: Path, broker_id: int, zookeeper: str, overrides: Mapping[str, str], dir_count: int
    ) -> None:
        self.folder, self.port = folder / f"broker-{broker_id}", free_port()
        self.dirs = [self.folder / f"data-{number}" for number in range(dir_count)]
        for each in self.dirs:
            each.mkdir(parents=True)
        more = {**_OVERRIDES, **overrides, "log.dirs": ",".join(map(str, self.dirs))}
        properties = apache_kafka.server_properties(broker_id, self.port, self.folder, zookeeper, more)
        path = apache_kafka.write_properties(self.folder / "server.properties", properties)
        self._command = [part.replace("broker-log4j", "three-logs-log4j") for part in small_kafka(path)]
        self.process: ServerProcess | None = None

    def start(self) -> None:
        self.process = ServerProcess("Apache Kafka", self._command, self.folder / "broker.out")

    def wait_ready(self, broker_count: int) -> None:
        wait_until(lambda: wire_probe.is_ready(self.port, broker_count), _TIMEOUT_S, self.folder.name)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def stop(self) -> None:
        assert self.process is not None
        self.process.stop()

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)


class _Pair:
    """A ZooKeeper, broker 1, which is the controller, and broker 2, with the topic ``orders``.

    Args:
        overrides: of both brokers.
        dir_count: the number of log directories of each broker.
    """

    def __init__(
        self,
        folder: Path,
        cleanup: contextlib.ExitStack,
        partition_count: int,
        overrides: Mapping[str, str] | None = None,
        dir_count: int = 1,
        chroot: str = "/kafka",
    ) -> None:
        self._data = folder / "zookeeper" / "data"
        self.zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper", force_sync=False)
        cleanup.callback(lambda: self.zookeeper.kill())
        self.address = f"{self.zookeeper.connect_string}{chroot}"
        self.one, self.two = (
            _Broker(folder, number, self.address, overrides or {}, dir_count) for number in (1, 2)
        )  # fmt: skip
        for count, broker in enumerate((self.one, self.two), 1):
            cleanup.callback(broker.kill)
            broker.start()
            broker.wait_ready(count)
        topic = NewTopic("orders", partition_count, replica_assignment=[[1, 2], [2, 1], [1, 2]][:partition_count])
        admin = self.admin()  # the producer must outlive its futures
        admin.create_topics([topic])["orders"].result(_TIMEOUT_S)
        time.sleep(_PAUSE_S)

    def admin(self) -> AdminClient:
        ports = f"127.0.0.1:{self.one.port},127.0.0.1:{self.two.port}"
        return AdminClient({"bootstrap.servers": ports, "log_level": 2})

    def wait_for(self, broker_id: int, *, is_there: bool) -> None:
        """Wait for the registration of a broker, or for its end."""
        with _connected(self.address) as client:
            path = f"/brokers/ids/{broker_id}"
            wait_until(lambda: bool(client.exists(path)) == is_there, _TIMEOUT_S, path)
        time.sleep(_PAUSE_S)

    def wait_for_state(self, text: bytes) -> None:
        """Wait until the state of the first partition has this text."""
        with _connected(self.address) as client:
            path = "/brokers/topics/orders/partitions/0/state"
            wait_until(lambda: text in client.get(path)[0], _TIMEOUT_S, f"{path} with {text!r}")
        time.sleep(_PAUSE_S)

    def empty_zookeeper(self) -> None:
        """Kill ZooKeeper, and start it at the same address without its data."""
        self.zookeeper.kill()
        shutil.rmtree(self._data)
        self.zookeeper = apache_kafka.restart_zookeeper(self.zookeeper)

    def copy_logs(self, to: Path) -> None:
        for broker in (self.one, self.two):
            target = to / broker.folder.name
            target.mkdir(parents=True)
            for name in _LOGS:
                shutil.copy(broker.folder / name, target / name)
        _copy_log(self._data, to / "zookeeper")


def broker_killed(folder: Path, to: Path) -> None:
    """The controller is killed and comes back; a member of a group is killed, and one leaves; a broker is stopped."""
    with contextlib.ExitStack() as cleanup:
        pair = _Pair(folder, cleanup, 3)
        members = [_member(folder, number, pair.two.port) for number in (1, 2, 3)]
        for member in members:
            cleanup.callback(member.kill)
        told = pair.two.folder / "server.log", pair.one.folder / "server.log"
        wait_until(lambda: _says(told, "with 3 members"), _TIMEOUT_S, "the group")
        time.sleep(_PAUSE_S)
        members[0].kill()
        wait_until(lambda: _says(told, "with 2 members", after="heartbeat expiration"), _TIMEOUT_S, "a rebalance")
        members[1].stop()
        time.sleep(_PAUSE_S)
        pair.one.kill()
        pair.wait_for(1, is_there=False)
        pair.one.start()
        pair.wait_for_state(b'"isr":[2,1]')
        time.sleep(_PAUSE_S)
        pair.one.stop()
        time.sleep(_PAUSE_S)
        pair.copy_logs(to)


def controller_paused(folder: Path, to: Path) -> None:
    """The controller is paused for longer than its session, as in a long garbage collection, and resumes."""
    with contextlib.ExitStack() as cleanup:
        pair = _Pair(folder, cleanup, 3)
        pair.one.send(signal.SIGSTOP)
        pair.wait_for(1, is_there=False)
        pair.one.send(signal.SIGCONT)
        pair.wait_for_state(b'"isr":[2,1]')
        time.sleep(_PAUSE_S)
        pair.copy_logs(to)


def unclean_election(folder: Path, to: Path) -> None:
    """The ISR shrinks to one broker, which is lost; the other one must not lead until an unclean election is allowed.
    """
    with contextlib.ExitStack() as cleanup:
        pair = _Pair(folder, cleanup, 1)
        pair.two.kill()
        pair.wait_for(2, is_there=False)
        _produce(pair.one.port, 100)
        pair.one.kill()
        pair.wait_for(1, is_there=False)
        pair.two.start()
        pair.wait_for(2, is_there=True)
        topic = ConfigResource(ConfigResource.Type.TOPIC, "orders", {"unclean.leader.election.enable": "true"})
        admin = pair.admin()
        wait_until(lambda: "orders" in admin.list_topics(timeout=_TIMEOUT_S).topics, _TIMEOUT_S, "the topic")
        admin.alter_configs([topic])[topic].result(_TIMEOUT_S)
        pair.wait_for_state(b'"leader":2')
        _produce(pair.two.port, 10)
        pair.one.start()
        pair.wait_for_state(b'"isr":[2,1]')
        pair.copy_logs(to)


def migration(folder: Path, to: Path) -> None:
    """A broker migrates to KRaft, and the migration is finalised."""
    overrides = {"inter.broker.protocol.version": "3.9", "offsets.topic.num.partitions": "1"}
    with contextlib.ExitStack() as cleanup:
        zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper", force_sync=False)
        controller = KRaftController(folder)
        broker = MigratingBroker(folder, 1, controller.quorum)
        for each in (zookeeper, controller, broker):
            cleanup.callback(each.kill)
        broker.start_before_the_migration(zookeeper.connect_string, overrides)
        wait_until(lambda: wire_probe.is_ready(broker.port), _TIMEOUT_S, "the broker")
        with _connected(zookeeper.connect_string) as client:
            cluster_id = client.get("/cluster/id")[0].split(b'"id":"')[1].split(b'"')[0].decode()
        controller.start(cluster_id, zookeeper.connect_string)
        time.sleep(_PAUSE_S)
        broker.stop()
        broker.start_with_zookeeper(zookeeper.connect_string, overrides)
        wait_until(lambda: controller.says(MIGRATED), _TIMEOUT_S, "the copy")
        time.sleep(_PAUSE_S)
        broker.stop()
        broker.start_with_kraft(overrides)
        wait_until(lambda: wire_probe.is_ready(broker.port), _TIMEOUT_S, "the broker in KRaft mode")
        time.sleep(_PAUSE_S)
        controller.stop()
        controller.start()
        wait_until(lambda: controller.says(ENDED), _TIMEOUT_S, "the end of the migration")
        broker.stop()
        _copy_log(folder / "zookeeper" / "data", to / "zookeeper")


def zookeeper_stalled(folder: Path, to: Path) -> None:
    """ZooKeeper is paused, as on a disk that hangs. During the pause, broker 2 is killed, and its partitions wait."""
    with contextlib.ExitStack() as cleanup:
        pair = _Pair(folder, cleanup, 3)
        os.killpg(pair.zookeeper.process.pid, signal.SIGSTOP)
        pair.two.kill()
        time.sleep(_STALL_S)
        os.killpg(pair.zookeeper.process.pid, signal.SIGCONT)
        pair.wait_for(2, is_there=False)
        pair.wait_for(1, is_there=True)
        pair.two.start()
        pair.wait_for_state(b'"isr":[1,2]')
        pair.copy_logs(to)


def slow_follower(folder: Path, to: Path) -> None:
    """A broker is paused repeatedly, each time for less than its session timeout, but longer than a follower may
    lag."""
    overrides = {"zookeeper.session.timeout.ms": "20000", "replica.lag.time.max.ms": "2000"}
    with contextlib.ExitStack() as cleanup:
        pair = _Pair(folder, cleanup, 1, overrides)
        for _ in range(2):
            pair.two.send(signal.SIGSTOP)
            _produce(pair.one.port, 10)
            pair.wait_for_state(b'"isr":[1]')
            pair.two.send(signal.SIGCONT)
            pair.wait_for_state(b'"isr":[1,2]')
        pair.copy_logs(to)


def disk_failed(folder: Path, to: Path) -> None:
    """One of broker 1's two log directories disappears."""
    with contextlib.ExitStack() as cleanup:
        pair = _Pair(folder, cleanup, 3, dir_count=2)
        shutil.rmtree(next(each for each in pair.one.dirs if (each / "orders-0").exists()))
        pair.wait_for_state(b'"leader":2')
        pair.copy_logs(to)


def too_few_replicas(folder: Path, to: Path) -> None:
    """With ``min.insync.replicas=2`` and one of two replicas lost, nothing can be written, though there is a leader."""
    with contextlib.ExitStack() as cleanup:
        pair = _Pair(folder, cleanup, 1, {"min.insync.replicas": "2"})
        pair.two.kill()
        pair.wait_for(2, is_there=False)
        pair.wait_for_state(b'"isr":[1]')
        _produce(pair.one.port, 1, "-X", "message.timeout.ms=3000", is_refused=True)
        pair.two.start()
        pair.wait_for_state(b'"isr":[1,2]')
        pair.copy_logs(to)


def zookeeper_emptied(folder: Path, to: Path) -> None:
    """ZooKeeper comes back without its data, as from ephemeral storage; then a broker is restarted."""
    with contextlib.ExitStack() as cleanup:
        pair = _Pair(folder, cleanup, 1, chroot="")
        pair.empty_zookeeper()
        time.sleep(_STALL_S)  # ZooKeeper refuses unknown sessions forever
        pair.two.kill()
        pair.two.start()
        process = pair.two.process
        wait_until(lambda: process is not None and not process.running, _TIMEOUT_S, "the end of broker 2")
        pair.copy_logs(to)


RECORDED: dict[str, Callable[[Path, Path], None]] = {
    "broker-killed": broker_killed, "controller-paused": controller_paused, "unclean-election": unclean_election,
    "migration": migration, "zookeeper-stalled": zookeeper_stalled, "slow-follower": slow_follower,
    "disk-failed": disk_failed, "too-few-replicas": too_few_replicas, "zookeeper-emptied": zookeeper_emptied,
}  # fmt: skip


def _member(folder: Path, number: int, port: int) -> ServerProcess:
    command = [
        "kcat", "-q", "-b", f"127.0.0.1:{port}", "-X", "session.timeout.ms=6000", "-X", f"client.id=reader-{number}",
        "-G", "readers", "orders",
    ]  # fmt: skip
    return ServerProcess("kcat", command, folder / f"member-{number}.out")


def _produce(port: int, count: int, *options: str, is_refused: bool = False) -> None:
    command = ["kcat", "-q", "-b", f"127.0.0.1:{port}", "-P", "-t", "orders", "-p", "0", *options]
    records = b"".join(b"record %d\n" % number for number in range(count))
    assert bool(subprocess.run(command, input=records, check=False, timeout=60).returncode) == is_refused


def _says(files: tuple[Path, ...], text: str, after: str = "") -> bool:
    """True if one of the files has ``text`` after the first ``after``."""
    told = (file.read_text(errors="replace") for file in files if file.exists())
    return any(after in each and text in each[each.index(after) :] for each in told)


@contextlib.contextmanager
def _connected(zookeeper: str) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def _copy_log(data: Path, to: Path) -> None:
    """The files without the zeros that the server has written ahead."""
    target = to / "version-2"
    target.mkdir(parents=True)
    for file in (data / "version-2").iterdir():
        if file.name.startswith(("log.", "snapshot.")):
            (target / file.name).write_bytes(file.read_bytes().rstrip(b"\0") + bytes(64))


def main() -> None:
    apache_kafka.start_quickly()
    to, *names = sys.argv[1:]
    for name in names or RECORDED:
        target = Path(to) / name
        shutil.rmtree(target, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="kafka-zk-outage-") as folder:
            RECORDED[name](Path(folder), target)


if __name__ == "__main__":
    main()
