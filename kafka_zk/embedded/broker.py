"""A broker as a child process."""

import contextlib
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_zk.base.operating_system.limits import limit_file_size_of
from kafka_zk.embedded.fault_token import FAULTS_FILE, FAULTS_TOKEN_VARIABLE, new_token
from kafka_zk.embedded.ports import LOCALHOST, free_port
from kafka_zk.embedded.private_files import write_private
from kafka_zk.embedded.probe import ClusterView, ask_broker
from kafka_zk.embedded.process import ChildProcess, python_command
from kafka_zk.embedded.properties_file import properties_text
from kafka_zk.embedded.start_gate import StartGate
from kafka_zk.embedded.supervisor import Supervisor
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity


class BrokerProcess:
    """One broker process on 127.0.0.1.

    Args:
        folder: contains ``server.properties``, ``broker.log`` (with rotated ``broker.log.1`` …), the log directory
            ``data`` and, with ``takes_faults``, ``faults.json``: the port and token of the API for faults.
        properties: Kafka's keys, which override the default id, listener, log directory and ZooKeeper.
        trace: a file or directory for its events.
        supervisor: closes the broker's session when the process has ended; without a supervisor, the session expires.
        login: the security of ``view``'s connections.
        takes_faults: serve the JSON API for faults (see ``faults``) on a free port.

    Attributes:
        faults_port: port of the JSON API for faults; None without ``takes_faults``.
        faults_token: its token; empty without ``takes_faults``.
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
        *,
        takes_faults: bool = False,
    ) -> None:
        self._login = login
        self.faults_port = free_port() if takes_faults else None
        self.faults_token = new_token() if takes_faults else ""
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
        faults = ("--faults-port", str(self.faults_port)) if takes_faults else ()
        command, environ = python_command("broker", self.properties_file, "--log-file", log, *traced, *faults)
        if takes_faults:
            environ[FAULTS_TOKEN_VARIABLE] = self.faults_token
        self.process = ChildProcess(f"broker {broker_id}", command, log, environ, supervisor=supervisor)
        self._gate: StartGate | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.alive

    @property
    def is_paused(self) -> bool:
        return self.process.is_paused

    @property
    def restart_command(self) -> str:
        return f"kafka-zk broker {shlex.quote(str(self.properties_file))}"

    @property
    def bootstrap(self) -> str:
        return f"{LOCALHOST}:{self.port}"

    def load(self) -> None:
        """Start the process early: it loads its modules and then waits until ``start`` is called."""
        gate = StartGate()
        try:
            self.process.start(gate)
        except BaseException:
            gate.abandon()
            raise
        self._gate = gate

    def start(self) -> None:
        """Does not wait until the broker serves (see ``EmbeddedCluster.wait_ready``).

        Raises: ProcessFailed if the process has ended while it loaded its modules.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        write_private(self.properties_file, properties_text(self._properties))
        faults_file = self.folder / FAULTS_FILE
        if self.faults_port is None:
            faults_file.unlink(missing_ok=True)
        else:
            write_private(faults_file, json.dumps({"port": self.faults_port, "token": self.faults_token}))
        gate, self._gate = self._gate, None
        if gate:
            gate.open()
            self.process.check_alive()
        else:
            self.process.start()

    def view(self, login: ClientSecurity | None = None) -> ClusterView | None:
        """The broker's view of the cluster; None if the broker does not respond or refuses the login."""
        return ask_broker(LOCALHOST, self.port, login or self._login)

    def stop(self, timeout_s: float = 30) -> int:
        """Kill after ``timeout_s``; returns the exit code."""
        code = self.process.stop(timeout_s)
        self._abandon_gate()
        return code

    def kill(self) -> None:
        """Send SIGKILL. As in a crash, the session remains until it expires, or with a supervisor for about 20 ms."""
        self.process.kill()
        self._abandon_gate()

    def _abandon_gate(self) -> None:
        gate, self._gate = self._gate, None
        if gate:
            gate.abandon()

    def pause(self) -> None:
        self.process.pause()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the process with SIGSTOP during the context."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def resume(self) -> None:
        self.process.resume()

    def limit_files(self, limit_bytes: int | None) -> None:
        """Limit the size of files that the running process writes; None: no limit. With 0 every write fails, as on a
        full disk but with another error number. A restart removes the limit. Raises: OSError, always except on Linux.
        """
        limit_file_size_of(self.pid, limit_bytes)
