"""A process of Apache Kafka on 127.0.0.1, with the files of one node in a folder of its own."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.java import Java
from kafka_zk.embedded.kafka_jars import KafkaJars
from kafka_zk.embedded.process import ChildProcess, describe_exit
from kafka_zk.embedded.properties_file import properties_text
from kafka_zk.embedded.zookeeper import QUICK_START
from kafka_zk.migration.rehearsal.loopback import LOOPBACK, NO_PORT
from kafka_zk.migration.rehearsal.process_log import LOG4J_PROPERTIES

_SERVER, _STORAGE_TOOL = "kafka.Kafka", "kafka.tools.StorageTool"
_MAX_HEAP = "-Xmx1g"
_TOOL_TIMEOUT_S = 120
_NO_OTHER_MACHINE = [
    f"-D{protocol}Proxy{part}"
    for protocol in ("socks", "http.", "https.")
    for part in (f"Host={LOOPBACK}", f"Port={NO_PORT}")
]
"""Java does not use a proxy for loopback addresses. Source: java.net (Java 17), networking properties."""


class KafkaProcess:
    """The JVM resolves no host names but localhost, and blocking sockets to other addresses go to a proxy that does not
    exist. Kafka's own sockets are non-blocking, and their addresses are in the settings. Only the owner can read the
    files."""

    def __init__(self, name: str, folder: Path, java: Java, jars: KafkaJars) -> None:
        self.name = name
        self.folder = folder
        self._java, self._jars = java, jars
        self._properties = folder / "server.properties"
        self._output = folder / "output.log"
        self._position = 0
        self._rest = ""
        environ = {**os.environ, "LC_ALL": "C.UTF-8"}
        self._process = ChildProcess(name, self._command(_SERVER, str(self._properties)), self._output, environ)

    def _command(self, main_class: str, *arguments: str) -> list[str]:
        return [
            str(self._java.path), _MAX_HEAP, *QUICK_START, "-Djava.awt.headless=true",
            f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}",
            f"-Djdk.net.hosts.file={self.folder / 'hosts'}", *_NO_OTHER_MACHINE,
            f"-Djava.security.krb5.conf={self.folder / 'krb5.conf'}",
            "-cp", self._jars.class_path, main_class, *arguments,
        ]  # fmt: skip

    def write(self, settings: Mapping[str, object]) -> None:
        """Write the node's files with these settings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j.properties").write_text(LOG4J_PROPERTIES)
        (self.folder / "krb5.conf").write_text("[libdefaults]\n")
        (self.folder / "hosts").write_text(f"{LOOPBACK} localhost {os.uname().nodename}\n")
        self._properties.write_text(properties_text(settings))

    def format(self, cluster_id: str, release: str) -> None:
        """Format the log directories for a ``metadata.version``. Raises: ProcessFailed."""
        cluster = f"--cluster-id={cluster_id}"  # as one argument: an id may begin with "-"
        arguments = ("format", cluster, "-c", str(self._properties), "--release-version", release)
        try:
            done = subprocess.run(
                self._command(_STORAGE_TOOL, *arguments), capture_output=True, text=True, check=False,
                stdin=subprocess.DEVNULL, timeout=_TOOL_TIMEOUT_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ProcessFailed(f"{self.name} was not formatted within {_TOOL_TIMEOUT_S} s") from None
        if done.returncode:
            raise ProcessFailed(f"{self.name} cannot be formatted for metadata.version {release}")

    def start_process(self, settings: Mapping[str, object]) -> None:
        """Raises: ProcessFailed."""
        self.write(settings)
        self._process.start()

    @property
    def is_running(self) -> bool:
        return self._process.alive

    def describe_end(self) -> str:
        """A sentence about the process's exit. The cause is in the process's log, which is deleted with the copy."""
        return f"{self.name} ended with {describe_exit(self._process.exit_code)}"

    def new_lines(self) -> Iterator[str]:
        """The lines that were logged since the last call."""
        with contextlib.suppress(FileNotFoundError), self._output.open("rb") as file:
            file.seek(self._position)
            data = file.read()
            self._position += len(data)
            *lines, self._rest = (self._rest + data.decode(errors="replace")).split("\n")
            yield from lines

    def skip_lines(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._position, self._rest = self._output.stat().st_size, ""

    def terminate(self) -> None:
        if self.is_running:
            self._process.terminate()

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()
