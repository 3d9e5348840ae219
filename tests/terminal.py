"""A shell on a real terminal of 80 columns that measures each command: how long it took, and how long it was silent."""

import fcntl
import os
import pty
import re
import selectors
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

COLUMNS, LINES = 80, 24
CHUNK_BYTES = 65_536
END_TIMEOUT_S = 60
LINGER_S = 0.05
"""What a command wrote at last may come a little later than the news that it ended."""
SHELL = r"""
while IFS= read -r -d '' -u "$1" command; do
    eval "$command"
    printf '%s\0' $? >&"$2"
done
"""
"""Reads commands from one descriptor, says their exit codes on another; stdin, stdout and stderr are the terminal."""

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Ran(NamedTuple):
    """One command, as a person at the terminal saw it."""

    command: str
    exit_code: int | None
    """None if it did not end in time."""
    seconds: float
    silence_s: float
    """The longest time without a character shown, from the start to the end of the command."""
    shown: str
    """What stood on the screen at last: without colours, and of a line that was written over the last text only."""
    before_silence: str
    """The last line that was shown before the longest silence; empty if there was none."""


class Terminal:
    """A bash whose variables and working directory last from command to command. Ends with its ``with`` block."""

    def __init__(self, cwd: Path, environ: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        commands, self._commands = os.pipe()
        self._codes, codes = os.pipe()
        self._process = subprocess.Popen(
            ["bash", "--norc", "-c", SHELL, "bash", str(commands), str(codes)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**environ, "TERM": "xterm", "COLUMNS": str(COLUMNS), "LINES": str(LINES)},
            pass_fds=(commands, codes),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        for descriptor in (slave, commands, codes):
            os.close(descriptor)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._master, selectors.EVENT_READ)
        self._selector.register(self._codes, selectors.EVENT_READ)

    def run(self, command: str, timeout_s: float = 60) -> Ran:
        """Run a command to its end."""
        return self._follow(command, timeout_s, until=None)

    def run_until(self, command: str, text: str, timeout_s: float = 60) -> Ran:
        """Run a command that goes on, until it has shown ``text``; its exit code is 0 then."""
        return self._follow(command, timeout_s, until=text)

    def interrupt(self, timeout_s: float = END_TIMEOUT_S) -> Ran:
        """Type Ctrl-C and wait for the command that goes on to end."""
        os.write(self._master, b"\x03")
        return self._wait("Ctrl-C", timeout_s, None)

    def _follow(self, command: str, timeout_s: float, until: str | None) -> Ran:
        os.write(self._commands, command.encode() + b"\0")
        return self._wait(command, timeout_s, until)

    def _wait(self, command: str, timeout_s: float, until: str | None) -> Ran:
        start_s = last_s = time.monotonic()
        silence_s, silent_at, shown, code = 0.0, 0, b"", b""
        exit_code: int | None = None
        while (now_s := time.monotonic()) < start_s + timeout_s:
            ready = [key.fd for key, _ in self._selector.select(start_s + timeout_s - now_s)]
            now_s = time.monotonic()
            if self._master in ready:
                if now_s - last_s > silence_s:
                    silence_s, silent_at = now_s - last_s, len(shown)
                shown += self._read_shown()
                last_s = now_s
                if until is not None and until.encode() in shown:
                    exit_code = 0
                    break
            elif self._codes in ready:
                code += os.read(self._codes, CHUNK_BYTES)
                if not code or code.endswith(b"\0"):
                    exit_code = int(code[:-1] or -1)
                    break
        ended_s = time.monotonic()
        if ended_s - last_s > silence_s:
            silence_s, silent_at = ended_s - last_s, len(shown)
        while any(key.fd == self._master for key, _ in self._selector.select(LINGER_S if until is None else 0)):
            shown += self._read_shown()
        before = _screen(shown[:silent_at]).rstrip().rpartition("\n")[2]
        return Ran(command, exit_code, ended_s - start_s, silence_s, _screen(shown), before)

    def _read_shown(self) -> bytes:
        try:
            return os.read(self._master, CHUNK_BYTES)
        except OSError:  # the shell has ended
            self._selector.unregister(self._master)
            return b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up: whatever still runs here gets SIGHUP, and SIGKILL if it does not end."""
        os.close(self._commands)
        os.close(self._master)
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._codes)
        self._selector.close()


def _screen(shown: bytes) -> str:
    lines = _CONTROL.sub("", shown.decode(errors="replace")).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rpartition("\r")[2] for line in lines)
