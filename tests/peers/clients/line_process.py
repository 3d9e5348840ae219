"""A JVM with a protocol of lines, so that many small requests share one start."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from typing import IO

from kafka_zk.embedded.process import tied
from tests.peers import java
from tests.peers.clients.base import TIMEOUT_S, ClientFailed

_FLAGS = ["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class LineProcess:
    """One of our classes under tests/peers/java, running with the jars of one Kafka version. ``limit_s``: maximum time
    for one response."""

    def __init__(self, version: str, main_class: str, limit_s: float = 2 * TIMEOUT_S) -> None:
        self._limit_s = limit_s
        self._name = f"the Java {version} {main_class}"
        self._process = subprocess.Popen(
            tied(java.driver_command(version, main_class, flags=_FLAGS)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, lines: Sequence[str]) -> str:
        """Send lines, and return the first line of the response. Raises: ClientFailed if the JVM does not respond."""
        stdin, _ = self._streams()
        watchdog = threading.Timer(self._limit_s, self._process.kill)
        watchdog.start()
        try:
            stdin.write("".join(f"{line}\n" for line in lines))
            stdin.flush()
            return self.more()
        finally:
            watchdog.cancel()

    def more(self) -> str:
        """The next line of a response with several lines. Raises: ClientFailed if the JVM has ended."""
        line = self._streams()[1].readline()
        if not line:
            raise ClientFailed(f"{self._name} ended without an answer")
        return line.rstrip("\n")

    def close(self) -> None:
        """End the JVM."""
        self._streams()[0].close()
        try:
            self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _streams(self) -> tuple[IO[str], IO[str]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None, "the process has no pipes"
        return stdin, stdout
