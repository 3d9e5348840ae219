"""Runs the real ZooKeeper server from the installed jars (see ``jars``)."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from kafka_zk.base.clock import monotonic_s
from kafka_zk.base.operating_system.files import sync
from kafka_zk.base.operating_system.tcp_sockets import listens
from kafka_zk.embedded.class_archive import NO_ARCHIVE, ClassArchive, archive_to_use_or_write, existing_archive
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.health import Health, probe
from kafka_zk.embedded.jars import find_zookeeper_jars
from kafka_zk.embedded.java import find_java
from kafka_zk.embedded.ports import LOCALHOST, can_listen, free_port
from kafka_zk.embedded.process import ChildProcess
from kafka_zk.embedded.properties_file import properties_text
from kafka_zk.embedded.server_security import ServerSecurity

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
START_TIMEOUT_S = 60
FIRST_ANSWER_TIMEOUT_S = 0.1
MAX_HEAP_MB = 256
PORT_ATTEMPTS = 5
ENDED_BY_SIGTERM = 143
"""Exit code of a JVM that has shut down."""
MIN_SESSION_TICKS, MAX_SESSION_TICKS = 2, 20
"""ZooKeeper's default minSessionTimeout and maxSessionTimeout."""
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData")

LOG4J2_FILE = Path(__file__).with_name("log4j2.properties")


def zookeeper_command(
    zoo_cfg: Path,
    *,
    force_sync: bool = True,
    max_heap_mb: int = MAX_HEAP_MB,
    jaas_file: Path | None = None,
    archive: ClassArchive | None = None,
) -> list[str]:
    """The command of one server, which runs in the foreground and logs to its output.

    With ``force_sync=False`` the server confirms writes before they are on disk: faster, and safe if only processes are
    killed. ``jaas_file``: users and passwords for SASL. ``archive``: None to use an existing archive, if any.

    Raises: JavaNotFound, JarsNotFound.
    """
    java, jars = find_java(), find_zookeeper_jars()
    archive = archive or existing_archive(java, jars)
    return [
        str(java.path),
        f"-Xmx{max_heap_mb}m",
        *QUICK_START,
        *archive.java_flags,
        f"-Dlog4j2.configurationFile={LOG4J2_FILE}",
        "-Dzookeeper.admin.enableServer=false",  # its jars are missing; zoo.cfg may still enable it
        f"-Dzookeeper.forceSync={'yes' if force_sync else 'no'}",
        *([f"-Djava.security.auth.login.config={jaas_file}"] if jaas_file else []),
        "-cp",
        os.pathsep.join(str(jar) for jar in jars),
        MAIN_CLASS,
        str(zoo_cfg),
    ]


def zookeeper_environ() -> dict[str, str]:
    """The command's environment, with a locale that lets Java open files with non-ASCII names."""
    return {**os.environ, "LC_ALL": "C.UTF-8"} if sys.getfilesystemencoding() == "utf-8" else dict(os.environ)


def sync_snapshots(data_dir: Path) -> None:
    """Sync the snapshots of a server that has just started.

    ZooKeeper 3.9 syncs its transaction log, but not the snapshot of the empty tree that it writes first. If only the
    log survives a power loss, ZooKeeper does not start: "No snapshot found, but there are log entries".
    Source: FileTxnSnapLog@3.9, restore and save.
    """
    folder = data_dir / "version-2"
    for path in (*folder.glob("snapshot.*"), folder, data_dir):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)


class EmbeddedZooKeeper:
    """One ZooKeeper server in a data directory; a later start with the same directory continues with its data.

    Args:
        data_dir: contains ``zoo.cfg``, ``zookeeper.log`` and the folder ``data``.
        port: on 127.0.0.1; 0: a free port, which is kept across restarts.
        tick_time_ms: sessions last between 2 and 20 ticks.
        force_sync: see ``zookeeper_command``.
        config: additional ``zoo.cfg`` keys, which override the defaults.
        security: TLS and SASL; with TLS ``connect_string`` has a second port, and ``port`` stays plain for probes.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int = 0,
        tick_time_ms: int = 2000,
        force_sync: bool = True,
        config: Mapping[str, str] | None = None,
        security: ServerSecurity | None = None,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self.port = port
        self.tls_port = 0
        self._security = security
        self._tick_time_ms = tick_time_ms
        self._force_sync = force_sync
        self._config = dict(config or {})
        self._process: ChildProcess | None = None
        self._archive = NO_ARCHIVE

    @property
    def connect_string(self) -> str:
        return f"{LOCALHOST}:{self.tls_port or self.port}"

    @property
    def client_properties(self) -> Mapping[str, str]:
        """Kafka's keys for brokers and tools that connect to the server."""
        return self._security.client_properties if self._security else {}

    def granted_timeout_ms(self, wanted_ms: int) -> int:
        return min(max(wanted_ms, MIN_SESSION_TICKS * self._tick_time_ms), MAX_SESSION_TICKS * self._tick_time_ms)

    @property
    def restart_command(self) -> str:
        return f"kafka-zk zookeeper {shlex.quote(str(self.data_dir / 'zoo.cfg'))}"

    @property
    def process(self) -> ChildProcess:
        """Raises ProcessFailed if it was never started."""
        if self._process is None:
            raise ProcessFailed("ZooKeeper was not started")
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self, timeout_s: float = START_TIMEOUT_S, meanwhile: Callable[[], None] = lambda: None) -> Self:
        """Returns when the server serves requests.

        ``meanwhile`` is called while the server starts, once its address is known, and again if it needs another port.

        Raises: JavaNotFound, JarsNotFound, ProcessFailed.
        """
        wanted = self.port
        if wanted and not can_listen(wanted):
            raise ProcessFailed(f"port {wanted} for ZooKeeper is in use")
        for attempt in range(PORT_ATTEMPTS):
            self.port = wanted or free_port()
            if self._security and self._security.tls:
                self.tls_port = self.tls_port or free_port()
            try:
                self._start_once(timeout_s, meanwhile)
                return self
            except ProcessFailed:
                taken = "Address already in use" in self.process.output()
                self.kill()
                if wanted or not taken or attempt == PORT_ATTEMPTS - 1:
                    self.port = wanted
                    raise
                self.tls_port = 0
        raise AssertionError("unreachable")

    def _start_once(self, timeout_s: float, meanwhile: Callable[[], None]) -> None:
        files = self.data_dir
        (files / "data").mkdir(parents=True, exist_ok=True)
        (files / "zoo.cfg").write_text(properties_text(self._settings()))
        jaas_file = self._security.jaas_file if self._security else None
        self._archive.close(complete=False)  # left by a server that was killed from outside
        self._archive = archive_to_use_or_write(find_java(), find_zookeeper_jars())
        command = zookeeper_command(
            files / "zoo.cfg", force_sync=self._force_sync, jaas_file=jaas_file, archive=self._archive
        )
        self._process = ChildProcess("ZooKeeper", command, files / "zookeeper.log", zookeeper_environ())
        self._process.start()
        begun_s = monotonic_s()
        meanwhile()
        self._process.wait_until(lambda: self._serves_itself(monotonic_s() - begun_s), timeout_s, "answer")
        if self._force_sync:
            sync_snapshots(Path(str(self._settings()["dataDir"])))

    def _serves_itself(self, age_s: float) -> bool:
        """True if this server responds on the port, not another one that started at the same time.

        A command that reaches a ZooKeeper before its database is loaded gets no response (a NullPointerException in the
        server), so the timeout is short: 100 ms, or a tenth of the server's age on a slow machine.
        """
        return self.serving(max(FIRST_ANSWER_TIMEOUT_S, age_s / 10)) and listens(self.pid, self.port)

    def _settings(self) -> dict[str, object]:
        return {
            "tickTime": self._tick_time_ms,
            "dataDir": self.data_dir / "data",
            "clientPort": self.port,
            "clientPortAddress": LOCALHOST,
            "maxClientCnxns": 0,  # all clients are on this machine; the default is 60 per host
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr,cons",
            "autopurge.snapRetainCount": 3,
            "autopurge.purgeInterval": 1,
            **(self._security.zoo_cfg(self._security.folder) if self._security else {}),
            **({"secureClientPort": self.tls_port, "secureClientPortAddress": LOCALHOST} if self.tls_port else {}),
            **self._config,
        }

    def serving(self, timeout_s: float = 2) -> bool:
        return probe(self.port, timeout_s=timeout_s).health is Health.SERVING

    def stop(self) -> int:
        """Returns the exit code (ENDED_BY_SIGTERM). Writing a class archive takes a second."""
        code = self.process.stop() if self._process else 0
        self._archive.close(complete=code == ENDED_BY_SIGTERM)
        return code

    def kill(self) -> None:
        self.process.kill()
        self._archive.close(complete=False)

    def kill_if_started(self) -> None:
        if self._process is not None:
            self.kill()

    def pause(self) -> None:
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()

    def restart(self) -> None:
        """Same port and data; sessions that have not expired continue."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self if self.alive else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
