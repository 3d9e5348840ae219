"""Apache Kafka 3.9.1 in ZooKeeper mode, and a real ZooKeeper, as processes: the oracle of the peer tests.

Benchmarks compare with a broker that runs with the JVM flags of Kafka's own start scripts. Tests call
``start_quickly``, because they measure nothing.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_zk.embedded.class_archive import use_if_there
from kafka_zk.embedded.ports import free_port
from tests.locks import alone
from tests.peers import jars, java
from tests.peers.processes import ServerProcess, pinned

_START_TIMEOUT_S = 90

#: kafka-server-start.sh@3.9 (heap, GC log) and kafka-run-class.sh@3.9 (performance, JMX).
BROKER_JVM_FLAGS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)

_QUICK_JVM_FLAGS = ("-Xmx1G", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_quick = False


def start_quickly() -> None:
    """Start later brokers of this process in 40 % of the CPU time: from an archive of their classes, and without the
    optimizing compiler. For tests only."""
    global _quick
    _quick = True


@dataclass(frozen=True)
class ZooKeeper:
    """A running ZooKeeper server; `connect_string` is without chroot."""

    process: ServerProcess
    connect_string: str
    command: Sequence[str]

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()


def start_zookeeper(
    folder: Path,
    *,
    cores: str | None = None,
    force_sync: bool = True,
    version: str = jars.ORACLE_VERSION,
    jvm_flags: Sequence[str] = (),
) -> ZooKeeper:
    """Start ZooKeeper from the jars of a Kafka version, with its data in `folder`; it serves when this returns.

    Without `force_sync`, it does not wait for its disk: on a busy disk, a transaction can take longer than a client
    waits for its session.
    """
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "zoo.cfg"
    config.write_text(
        f"dataDir={folder / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
        "admin.enableServer=false\n4lw.commands.whitelist=mntr,wchc,cons\ntickTime=1000\n"
    )
    command = [
        "java",
        "-Xmx256M",
        "-XX:+UseSerialGC",
        f"-Dzookeeper.forceSync={'yes' if force_sync else 'no'}",
        f"-Dlog4j.configuration=file:{java.SOURCES / 'broker-log4j.properties'}",
        *jvm_flags,
        "-cp",
        jars.class_path(version),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(config),
    ]
    command = pinned(command, cores)
    process = ServerProcess("ZooKeeper", command, folder / "zookeeper.out")
    process.wait_ready(lambda: _serves(port), _START_TIMEOUT_S)
    return ZooKeeper(process, f"127.0.0.1:{port}", command)


def restart_zookeeper(ended: ZooKeeper) -> ZooKeeper:
    """Restart the server at its address, with the present content of its folder."""
    process = ServerProcess("ZooKeeper", ended.command, ended.process.output)
    process.wait_ready(lambda: _serves(int(ended.connect_string.rpartition(":")[2])), _START_TIMEOUT_S)
    return ZooKeeper(process, ended.connect_string, ended.command)


def _serves(port: int) -> bool:
    """Whether ZooKeeper executes requests. It answers `imok` earlier than that, and a client that connects then may
    wait long.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as sock:
            sock.sendall(b"srvr")
            return sock.recv(100).startswith(b"Zookeeper version:")
    except OSError:
        return False


def server_properties(
    broker_id: int, port: int, log_dir: Path, zookeeper: str, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Kafka's config/server.properties for one broker on 127.0.0.1, with `overrides` on top.

    The same properties start Apache Kafka and kafka-zk.
    """
    return {
        "broker.id": str(broker_id),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "socket.receive.buffer.bytes": "102400",
        "socket.request.max.bytes": "104857600",
        "log.dirs": str(log_dir),
        "num.partitions": "1",
        "num.recovery.threads.per.data.dir": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.retention.hours": "168",
        "log.retention.check.interval.ms": "300000",
        "zookeeper.connect": zookeeper,
        "zookeeper.connection.timeout.ms": "18000",
        "group.initial.rebalance.delay.ms": "0",
        **overrides,
    }


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    """Write a Java properties file (values here need no escapes) and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


def broker_command(properties: Path, version: str = jars.ORACLE_VERSION) -> list[str]:
    """The command line that starts Apache Kafka's broker: as its own scripts do, or quickly (see ``start_quickly``)."""
    folder = properties.parent
    if _quick:
        return _command(properties, [*_QUICK_JVM_FLAGS, *_archive_flags(version)], version)
    gc_log = f"-Xlog:gc*:file={folder / 'kafkaServer-gc.log'}:time,tags:filecount=10,filesize=100M"
    return _command(properties, [*BROKER_JVM_FLAGS, gc_log], version)


def _command(properties: Path, jvm_flags: Sequence[str], version: str) -> list[str]:
    return [
        "java",
        *jvm_flags,
        f"-Dkafka.logs.dir={properties.parent}",
        f"-Dlog4j.configuration=file:{java.SOURCES / 'broker-log4j.properties'}",
        "-cp",
        jars.class_path(version),
        "kafka.Kafka",
        str(properties),
    ]


def _archive_flags(version: str) -> Sequence[str]:
    """The flags that use the archive of a broker's classes. The first call writes it, with a broker that starts and
    stops. Versions without ZooKeeper have none."""
    if version != jars.ORACLE_VERSION:
        return ()
    archive = java.archive(version, "broker")
    with alone(archive):
        if not archive.exists():
            _write_archive(archive, version)
    return use_if_there(archive).java_flags


def _write_archive(archive: Path, version: str) -> None:
    partial = archive.with_suffix(".part")
    with tempfile.TemporaryDirectory(prefix="kafka-archive-") as folder:
        zookeeper = start_zookeeper(Path(folder) / "zookeeper", force_sync=False)
        try:
            properties = server_properties(0, free_port(), Path(folder) / "logs", zookeeper.connect_string, {})
            path = write_properties(Path(folder) / "server.properties", properties)
            flags = [*_QUICK_JVM_FLAGS, f"-XX:ArchiveClassesAtExit={partial}"]
            output = Path(folder) / "broker.out"
            broker = ServerProcess("Apache Kafka", _command(path, flags, version), output)
            broker.wait_ready(lambda: "started (kafka.server.KafkaServer)" in output.read_text(), _START_TIMEOUT_S)
            broker.stop()
        finally:
            zookeeper.stop()
    partial.rename(archive)
