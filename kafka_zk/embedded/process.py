"""A child process: start, supervision, signals and exit."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO

from kafka_zk.base.clock import monotonic_s
from kafka_zk.base.green_threads import green_threads_problem
from kafka_zk.base.operating_system import launch
from kafka_zk.embedded import interrupts, starter
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.start_gate import StartGate
from kafka_zk.embedded.supervisor import Supervisor

POLL_INTERVAL_S = 0.02
QUOTED_LINE_CHARACTERS = 300
LAST_SECONDS_S = 10
_ERROR_LINE = re.compile(r"^Error: | (ERROR|CRITICAL) |\"level\": \"(error|critical)\"")
_STAMP = re.compile(r"(?:\{\"time\": \")?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{3}Z?)")
_LAUNCHER = Path(launch.__file__)
_IMPORT_ROOT = Path(__file__).resolve().parents[2]


def _has_current_folder() -> bool:
    """False if the current folder was removed, as a test's temporary folder may be. Java does not start in it."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


class ChildProcess:
    """A child process, which dies with its parent unless ``outlives_parent``.

    It runs in its own session, so that Ctrl-C in a terminal reaches only the parent, which stops its children in order.
    A ``supervisor`` closes its ZooKeeper session after its end.

    ``is_paused``: ``pause`` has stopped the process, and nothing has continued or ended it.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log_file: Path,
        environ: Mapping[str, str] | None = None,
        *,
        outlives_parent: bool = False,
        supervisor: Supervisor | None = None,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log_file = log_file
        self._environ = dict(os.environ if environ is None else environ)
        self._outlives_parent = outlives_parent
        self._supervisor = supervisor
        self._process: subprocess.Popen[bytes] | None = None
        self._log_position = 0
        self._log_inode = 0
        self._asked_to_end = False
        self.is_paused = False

    @property
    def pid(self) -> int:
        """Raises ProcessFailed if the process was never started."""
        if self._process is None:
            raise ProcessFailed(f"{self.name} was not started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None before the start and while the process runs; negative: the signal that ended it."""
        return None if self._process is None else self._process.poll()

    def start(self, gate: StartGate | None = None) -> None:
        """The log file keeps the output of earlier starts. ``gate``: the process waits at it until it is opened.

        Raises: ProcessFailed if gevent or eventlet have replaced this process's threads.
        """
        assert not self.alive, f"{self.name} is running"
        if problem := green_threads_problem():
            raise ProcessFailed(f"{self.name} cannot be started: {problem}")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._asked_to_end = self.is_paused = False
        command = self.command if self._outlives_parent else tied(self.command)
        with interrupts.held(), self.log_file.open("ab") as log:
            self._log_position, self._log_inode = log.tell(), os.fstat(log.fileno()).st_ino
            try:
                self._process = self._popen(command, log, gate)
            finally:
                if gate:
                    gate.child_started()

    def _popen(self, command: list[str], log: IO[bytes], gate: StartGate | None) -> "subprocess.Popen[bytes]":
        life = self._supervisor.new_life() if self._supervisor else None
        pipes = [pipe for pipe in (life, gate) if pipe]

        def make() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                command,
                cwd=None if _has_current_folder() else self.log_file.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environ | {key: value for pipe in pipes for key, value in pipe.environ.items()},
                start_new_session=True,
                pass_fds=[pipe.descriptor for pipe in pipes],
            )

        try:
            process = starter.start(make)
        except BaseException:
            if life:
                life.abandon()
            raise
        if life:
            try:
                life.begin(process)
            except BaseException:  # without its thread, the process would be orphaned
                process.kill()
                process.wait()
                life.abandon()
                raise
        return process

    def wait_until(self, ready: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Raises: ProcessFailed if the process ends first, or at the timeout."""
        deadline = monotonic_s() + timeout_s
        while not ready():
            self.check_alive()
            if monotonic_s() > deadline:
                raise ProcessFailed(f"{self.name} did not {what} within {timeout_s:g} s{self.recent_output()}")
            time.sleep(POLL_INTERVAL_S)

    def check_alive(self) -> None:
        """Raises ProcessFailed, or KeyboardInterrupt if Ctrl-C ended the process before it had its own session."""
        if self.exit_code == -signal.SIGINT:
            raise KeyboardInterrupt
        if not self.alive:
            raise ProcessFailed(self.describe_end())

    def describe_end(self) -> str:
        """One sentence with the last log lines and the log file."""
        now_s = time.clock_gettime(time.CLOCK_REALTIME)  # time.time may be frozen in a user's test
        return f"{self.name} ended with {describe_exit(self.exit_code)}{self.recent_output(now_s - LAST_SECONDS_S)}"

    def terminate(self) -> None:
        """Send SIGTERM, and resume the process if it is paused.

        SIGTERM is sent once: a second one could reach an interpreter that has already removed its handlers.
        """
        if not self._asked_to_end:
            self._asked_to_end = True
            self._signal(signal.SIGTERM)
        self.resume()

    def stop(self, timeout_s: float = 30) -> int:
        """Kill after ``timeout_s``; returns the exit code (negative: the signal)."""
        if self._process is None:
            return 0
        if self.alive:
            self.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """Send SIGKILL, as in a crash. Returns when the process is gone."""
        if self._process is None:
            return 0
        self._signal(signal.SIGKILL)
        self.is_paused = False
        return self._process.wait()

    def pause(self) -> None:
        """Stop the process; its connections stay open."""
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def output(self) -> str:
        """The output since the last start; after a log rotation, the newest file."""
        with contextlib.suppress(FileNotFoundError), self.log_file.open("rb") as log:
            file = os.fstat(log.fileno())
            rotated = file.st_ino != self._log_inode or file.st_size < self._log_position
            log.seek(0 if rotated else self._log_position)
            return log.read().decode(errors="replace")
        return ""

    def recent_output(self, since_s: float = 0) -> str:
        """The end of an error message: the last logged error, or else the last line, and the log file.

        Args:
            since_s: lines before this time (as of ``time.time``) are not quoted.
        """
        written_s = self.log_file.stat().st_mtime if self.log_file.exists() else 0.0
        lines = [line for line in lines_since(self.output(), since_s, written_s) if line.strip()]
        lines = [line for line in lines if _ERROR_LINE.search(line)] or lines
        quote = f", saying: {lines[-1].strip()[:QUOTED_LINE_CHARACTERS]}" if lines else ""
        return f"{quote} (log: {self.log_file})"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)  # no effect once the process has ended


def lines_since(log: str, since_s: float, written_s: float) -> list[str]:
    """The lines since a time. A line without a time gets the previous line's time. Lines after the last line with a
    time get the file's time, ``written_s``.
    """
    lines = log.splitlines()
    times = [_time_of(line) for line in lines]
    stamped = [number for number, time_s in enumerate(times) if time_s is not None]
    last = stamped[-1] if stamped else -1
    found = []
    now_s = written_s if last < 0 else 0.0
    for number, (line, time_s) in enumerate(zip(lines, times, strict=True)):
        now_s = written_s if number > last else now_s if time_s is None else time_s
        if now_s >= since_s:
            found.append(line)
    return found


def _time_of(line: str) -> float | None:
    """The time of a log line. Brokers log in UTC, marked by Z, and ZooKeeper in local time."""
    stamp = _STAMP.match(line)
    return datetime.fromisoformat(stamp[1].replace(",", ".")).timestamp() if stamp else None


def tied(command: Sequence[str]) -> list[str]:
    """Make ``command`` die with this process (see ``launch.py``); it keeps the pid."""
    return [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *command]


def describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"


def python_command(*arguments: str | Path) -> tuple[list[str | Path], dict[str, str]]:
    """Command and environment of ``python -m kafka_zk`` with this copy of the code."""
    environ = dict(os.environ)
    inherited = environ.get("PYTHONPATH")
    environ["PYTHONPATH"] = f"{_IMPORT_ROOT}{os.pathsep}{inherited}" if inherited else str(_IMPORT_ROOT)
    environ["PYTHONUNBUFFERED"] = "1"
    environ.pop("PYTHONWARNINGS", None)  # users' warning filters must not affect servers
    # -P: ignore folders in the working directory that are named like one of the packages.
    return [sys.executable, "-P", "-m", "kafka_zk", *arguments], environ
