"""The processes of a run: members that execute requests (``members/protocol.py``) and the steady producer."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from kafka_zk.embedded.process import tied
from tests.peers.jars import REPOSITORY_ROOT

_ANSWER_TIMEOUT_S = 240


class MemberFailed(Exception):
    """A member process ended, refused a request, or did not respond; the text contains the end of its log."""


class MemberProcess:
    """One process that hosts members; its log is ``log``."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                tied(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
                cwd=REPOSITORY_ROOT,
            )  # fmt: skip
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._expect_ok("start")

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, verb: str, names: Sequence[str]) -> None:
        """Send a request; ``done`` waits for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{verb} {' '.join(names)}\n")
        self._process.stdin.flush()

    def done(self, what: str) -> None:
        """Wait for the answer. Raises: MemberFailed."""
        self._expect_ok(what)

    def kill(self) -> None:
        """Send SIGKILL: the members commit, release and announce nothing."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line.rstrip("\n"))
        self._answers.put("error it ended")

    def _expect_ok(self, what: str) -> None:
        try:
            answer = self._answers.get(timeout=_ANSWER_TIMEOUT_S)
        except queue.Empty:
            answer = f"error no answer in {_ANSWER_TIMEOUT_S} s"
        if answer != "ok":
            tail = self._log.read_text(errors="replace")[-2000:]
            raise MemberFailed(f"{what}: {answer}\n{tail}")


class SteadyProducer:
    """Writes ``rate`` records per second to every partition of a topic until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int, rate: int) -> None:
        arguments = [bootstrap, topic, str(partition_count), str(rate)]
        self._process = subprocess.Popen(
            tied([sys.executable, "-m", "tests.bench.rebalance.producer", *arguments]),
            stdin=subprocess.PIPE, cwd=REPOSITORY_ROOT,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """Close the producer's input, and wait until it has sent all records."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
