"""One broker as a process of its own: ``kafka-zk broker`` on a properties file in its folder."""

import contextlib
import resource
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.embedded.private_files import write_private
from kafka_zk.embedded.probe import ClusterView, ask_broker
from kafka_zk.embedded.process import ChildProcess, python_command
from kafka_zk.embedded.properties_file import properties_text
from kafka_zk.embedded.supervisor import Supervisor
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity


class BrokerProcess:
    """One broker process on 127.0.0.1; start, stop, kill, pause and start again as often as you like.

    Args:
        folder: ``server.properties``, ``broker.log`` (and ``broker.log.1`` …, once it was full) and the log directory
            ``data`` lie here.
        properties: Kafka's keys; they win over id, listener, log directory and ZooKeeper that are filled in here.
        trace: a file or directory that it writes its events into.
        supervisor: closes its session when the process has ended; without one, the session runs out.
        login: how ``view`` connects to it.
    """

    def __init__(
        self,
        folder: Path,
        broker_id: int,
        port: int,
        zookeeper_connect: str,
        properties: Mapping[str, str],
        trace: Path | None = None,
        supervisor: Supervisor | None = None,
        login: ClientSecurity = NO_SECURITY,
    ) -> None:
        self._login = login
        self.folder = folder.resolve()
        self.broker_id = broker_id
        self.port = port
        self.properties_file = self.folder / "server.properties"
        self.log_dir = self.folder / "data"
        self._properties = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{LOCALHOST}:{port}",
            "log.dirs": str(self.log_dir),
            "zookeeper.connect": zookeeper_connect,
            **properties,
        }
        log = self.folder / "broker.log"
        traced = () if trace is None else ("--trace", trace)
        command, environ = python_command("broker", self.properties_file, "--log-file", log, *traced)
        self.process = ChildProcess(f"broker {broker_id}", command, log, environ, supervisor=supervisor)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.alive

    @property
    def restart_command(self) -> str:
        """What a person types to start it again by itself."""
        return f"kafka-zk broker {shlex.quote(str(self.properties_file))}"

    @property
    def bootstrap(self) -> str:
        return f"{LOCALHOST}:{self.port}"

    def start(self) -> None:
        """Start the process; does not wait for it to serve (``EmbeddedCluster.wait_ready`` does)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_private(self.properties_file, properties_text(self._properties))
        self.process.start()

    def view(self, login: ClientSecurity | None = None) -> ClusterView | None:
        """Whom it believes to be in the cluster; None while it does not answer, or does not let us in."""
        return ask_broker(LOCALHOST, self.port, login or self._login)

    def stop(self, timeout_s: float = 30) -> int:
        """End it cleanly, by force after the time; returns the exit code."""
        return self.process.stop(timeout_s)

    def kill(self) -> None:
        """SIGKILL. Its session outlives it, as in a crash: until it runs out, or for some 20 ms with a supervisor."""
        self.process.kill()

    def pause(self) -> None:
        self.process.pause()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stopped by SIGSTOP within the block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def resume(self) -> None:
        self.process.resume()

    def limit_files(self, limit_bytes: int | None) -> None:
        """Let no file of the running process grow beyond this; None: as far as before. With 0 every write to a file
        fails, as on a full disk, with another error number. The next start has no limit. Raises: OSError."""
        hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (hard if limit_bytes is None else limit_bytes, hard))
