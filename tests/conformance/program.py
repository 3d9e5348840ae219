"""A client's program as a process. Its JSON lines become events of the trace; its stderr goes to a file."""

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from kafka_zk.base.clock import monotonic_s
from kafka_zk.embedded.process import tied
from tests.conformance.judge import Event

END_TIMEOUT_S = 15


class ProgramEnded(Exception):
    """The program ended although its input was open."""


class NoAnswer(Exception):
    """The program did not answer, or did not end, in time."""


class Program:
    """Runs from the constructor on. ``heard``: all events so far."""

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        with errors.open("ab") as stderr:
            self._process = subprocess.Popen(
                tied(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        assert self._process.stdin is not None and self._process.stdout is not None, "both are pipes"
        self._stdin = self._process.stdin
        self._lines: queue.Queue[Event | None] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def _read(self, stdout: IO[str]) -> None:
        for line in stdout:
            told = json.loads(line)
            self._lines.put(Event(monotonic_s(), told["event"], tuple(told["values"]), told["error"]))
        self._lines.put(None)

    def feed(self, values: Sequence[int]) -> None:
        """Give numbers to a producer to send together. A program that has ended takes nothing."""
        with contextlib.suppress(BrokenPipeError):  # ``next_event`` raises ProgramEnded
            self._stdin.write(" ".join(map(str, values)) + "\n")
            self._stdin.flush()

    def next_event(self, deadline_s: float) -> Event:
        """Raises: ProgramEnded, NoAnswer."""
        try:
            event = self._lines.get(timeout=max(0.0, deadline_s - monotonic_s()))
        except queue.Empty:
            raise NoAnswer from None
        if event is None:
            raise ProgramEnded
        return event

    def end(self) -> list[Event]:
        """Close the input, which ends the program, and return its last events. If it does not end in time, kill it.

        Raises: NoAnswer after a kill.
        """
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NoAnswer from None
        return list(iter(self._lines.get, None))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
