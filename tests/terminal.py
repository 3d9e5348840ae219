"""Runs a program on a pseudoterminal, as a person would use it, and a shell that measures its commands."""

import fcntl
import os
import pty
import re
import selectors
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

COLUMNS, LINES = 80, 24
CTRL_C = "\x03"
TIMEOUT_S = 60
CHUNK_BYTES = 65_536
END = b"\x1b[999m"
"""The shell writes this after a command's output. The exit code arrives on another descriptor, perhaps earlier."""
SHELL = r"""
trap : INT
while IFS= read -r -d '' -u "$1" command; do
    eval "$command"
    code=$?
    printf '\033[999m'
    printf '%s\0' $code >&"$2"
done
"""
"""Reads commands from one descriptor, and writes their exit codes to another; stdin, stdout and stderr are the
terminal. Ctrl-C must not end this shell, because the kernel discards unread output when a session's leader ends."""

LEADER = r"""
import os, signal, subprocess, sys
ended, end = map(int, sys.argv[1:3])
signal.signal(signal.SIGINT, lambda *_: None)
hang_up = {signal.SIGHUP}
signal.pthread_sigmask(signal.SIG_BLOCK, hang_up)  # until it can be passed on
program = subprocess.Popen(sys.argv[3:], preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, hang_up))
signal.signal(signal.SIGHUP, lambda *_: program.send_signal(signal.SIGHUP))
signal.pthread_sigmask(signal.SIG_UNBLOCK, hang_up)
code = program.wait()
try:
    os.write(1, b"\033[999m")
except OSError:
    pass  # the terminal was hung up
os.close(ended)
os.read(end, 1)
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal is hung up now, maybe before this program has ended
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""Leads the session of a program: closes one descriptor when the program has ended, waits for the end of the other, and
then ends with the same exit code. Until then, the program's output can be read; the kernel discards it when the
session's leader ends."""

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[=>]")
_SIZES = ("COLUMNS", "LINES", "NO_COLOR")
"""Environment variables that describe another terminal."""


class _Session:
    """A session and its terminal, which is closed at the end of the ``with`` block, or by ``hang_up``."""

    def __init__(
        self,
        command: Sequence[str | Path],
        environ: Mapping[str, str],
        cwd: Path | None,
        lines: int,
        pass_fds: Sequence[int],
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, COLUMNS, 0, 0))
        kept = {name: value for name, value in environ.items() if name not in _SIZES}
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**kept, "TERM": "xterm-256color"},
            pass_fds=pass_fds,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
        )
        os.close(slave)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._master, selectors.EVENT_READ)
        self._is_open = True
        self._shown = b""

    @property
    def raw(self) -> str:
        """All output so far, with control sequences."""
        return self._shown.decode(errors="replace")

    @property
    def text(self) -> str:
        """The output without control sequences. Text that overwrites a line is on a separate line."""
        return _CONTROL.sub("", self.raw).replace("\r\n", "\n").replace("\r", "\n")

    def press(self, keys: str) -> None:
        """Type a text; CTRL_C interrupts the program."""
        os.write(self._master, keys.encode())

    def read_until(self, condition: str, after: int = 0, timeout_s: float = TIMEOUT_S) -> int:
        """Read until ``text`` contains it after position ``after``; returns the position where it ends."""
        deadline_s = time.monotonic() + timeout_s
        while condition not in self.text[after:]:
            assert self._wait(deadline_s), f"no {condition!r} within {timeout_s} s after:\n{self.text[after:]}"
            assert self._read(), f"it ended without {condition!r} after:\n{self.text[after:]}"
        return self.text.index(condition, after) + len(condition)

    def hang_up(self) -> int:
        """Close the terminal: its processes get SIGHUP, and SIGKILL if they do not end. Returns the exit code."""
        if self._is_open:
            self._is_open = False
            self._selector.close()
            os.close(self._master)
        try:
            return self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait()

    def _wait(self, deadline_s: float) -> list[int]:
        """The descriptors that can be read; none after the timeout."""
        return [key.fd for key, _ in self._selector.select(max(0, deadline_s - time.monotonic()))]

    def _read(self) -> bool:
        """Read the available output. Returns False when the program has ended."""
        try:
            data = os.read(self._master, CHUNK_BYTES)
        except OSError:  # the other end is closed
            data = b""
        if not data:
            self._selector.unregister(self._master)
        self._shown += data
        return bool(data)

    def _read_to_the_mark(self, begin: int = 0) -> None:
        """Read the output of a command that has ended, from the given position."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while END not in self._shown[begin:]:
            assert self._master in self._wait(deadline_s), "a command ended, and the end of its output does not come"
            self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()


class Terminal(_Session):
    """A program on a terminal."""

    def __init__(
        self, command: Sequence[str | Path], environ: Mapping[str, str], cwd: Path | None = None, lines: int = LINES
    ) -> None:
        self._ended, ended = os.pipe()
        end, self._end = os.pipe()
        leader = (sys.executable, "-I", "-S", "-c", LEADER, str(ended), str(end), *command)
        super().__init__(leader, environ, cwd, lines, (ended, end))
        os.close(ended)
        os.close(end)

    def read_to_the_end(self, timeout_s: float = TIMEOUT_S) -> int:
        """Read until the program ends. Returns the exit code, negative if a signal ended it."""
        deadline_s = time.monotonic() + timeout_s
        self._selector.register(self._ended, selectors.EVENT_READ)
        while self._ended not in (ready := self._wait(deadline_s)):
            assert ready, f"it did not end within {timeout_s} s:\n{self.text}"
            self._read()
        self._selector.unregister(self._ended)
        self._read_to_the_mark()
        return self.hang_up()

    def hang_up(self) -> int:
        if self._is_open:
            os.close(self._ended)
            os.close(self._end)
        return super().hang_up()


class Ran(NamedTuple):
    """One command, as a user saw it on the terminal."""

    command: str
    exit_code: int | None
    """None if it did not end in time."""
    seconds: float
    silence_s: float
    """The longest time without a visible character, between the command's start and end."""
    shown: str
    """The final content of the screen: without colours, and with only the last text of an overwritten line."""
    before_silence: str
    """The last line that was shown before the longest silence; empty if there was none."""


class Shell(_Session):
    """A bash that keeps variables and working directory between commands."""

    def __init__(self, cwd: Path, environ: Mapping[str, str]) -> None:
        commands, self._commands = os.pipe()
        self._codes, codes = os.pipe()
        command = ("bash", "--norc", "-c", SHELL, "bash", str(commands), str(codes))
        super().__init__(command, environ, cwd, LINES, (commands, codes))
        os.close(commands)
        os.close(codes)
        self._selector.register(self._codes, selectors.EVENT_READ)

    def run(self, command: str, timeout_s: float = TIMEOUT_S) -> Ran:
        """Run a command to its end."""
        os.write(self._commands, command.encode() + b"\0")
        return self._follow(command, timeout_s, None)

    def run_until(self, command: str, text: str, timeout_s: float = TIMEOUT_S) -> Ran:
        """Run a command until it has shown ``text``; it continues, and the exit code is 0."""
        os.write(self._commands, command.encode() + b"\0")
        return self._follow(command, timeout_s, text)

    def interrupt(self, timeout_s: float = TIMEOUT_S) -> Ran:
        """Type Ctrl-C and wait until the running command ends."""
        self.press(CTRL_C)
        return self._follow("Ctrl-C", timeout_s, None)

    def _follow(self, command: str, timeout_s: float, until: str | None) -> Ran:
        start_s = last_s = time.monotonic()
        begin = silent_at = len(self._shown)
        silence_s, code = 0.0, b""
        exit_code: int | None = None
        while ready := self._wait(start_s + timeout_s):
            now_s = time.monotonic()
            if self._master in ready:
                if now_s - last_s > silence_s:
                    silence_s, silent_at = now_s - last_s, len(self._shown)
                self._read()
                last_s = now_s
                if until is not None and until.encode() in self._shown[begin:]:
                    exit_code = 0
                    break
            else:
                code += os.read(self._codes, CHUNK_BYTES)
                if not code or code.endswith(b"\0"):
                    exit_code = int(code[:-1] or -1)
                    break
        ended_s = time.monotonic()
        if ended_s - last_s > silence_s:
            silence_s, silent_at = ended_s - last_s, len(self._shown)
        if code:
            self._read_to_the_mark(begin)
        before = _screen(self._shown[begin:silent_at]).rstrip().rpartition("\n")[2]
        return Ran(command, exit_code, ended_s - start_s, silence_s, _screen(self._shown[begin:]), before)

    def hang_up(self) -> int:
        if self._is_open:
            os.close(self._commands)
            os.close(self._codes)
        return super().hang_up()


def _screen(shown: bytes) -> str:
    lines = _CONTROL.sub("", shown.decode(errors="replace")).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rpartition("\r")[2] for line in lines)
