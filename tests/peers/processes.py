"""Child processes of the tests. Each has its own session, tests wait for conditions, and none is left behind: they die
with the process that started them, even if that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kafka_zk.embedded.process import tied

_POLL_INTERVAL_S = 0.02
_LOG_TAIL_BYTES = 4000


class ProcessFailed(Exception):
    """A child ended, or was not ready in time; contains the tail of its output."""


def wait_until(
    condition: Callable[[], bool], timeout_s: float, what: str, *, interval_s: float = _POLL_INTERVAL_S
) -> None:
    """Return as soon as `condition()` holds. Raises: TimeoutError naming `what`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(interval_s)


def pinned(command: Sequence[str], cores: str | None) -> list[str]:
    """`command`, pinned to the CPU cores of a taskset list such as "0,1"; unchanged if `cores` is None."""
    return ["taskset", "-c", cores, *command] if cores else list(command)


class ServerProcess:
    """One server in its own session, its output in a file.

    `started_s` is the monotonic time just before it was started.
    """

    def __init__(
        self, name: str, command: Sequence[str], output: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.output = output
        output.parent.mkdir(parents=True, exist_ok=True)
        self.started_s = time.monotonic()
        with output.open("ab") as stream:
            self._process = subprocess.Popen(
                tied(command),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def tail(self) -> str:
        """The last few thousand bytes of its output."""
        return self.output.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `ready()`. Raises: ProcessFailed if the process ends first, or after the timeout."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running:
                raise ProcessFailed(f"{self.name} ended with {self._process.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ProcessFailed(f"{self.name} is not ready after {timeout_s:g} s:\n{self.tail()}")
            time.sleep(_POLL_INTERVAL_S)

    def stop(self, timeout_s: float = 30) -> int:
        """Send SIGTERM, and SIGKILL after `timeout_s`; returns the exit code (negative: the signal)."""
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._process.wait()

    def kill(self) -> None:
        """Send SIGKILL to the whole session, and reap the process."""
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
