"""A command on a real pseudo-terminal: what a person would see, and keys that are pressed."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.integration.processes import COMMAND, ENVIRON, TIMEOUT_S

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """``kafka-zk`` with these arguments on a terminal of 80 columns; a context manager, which kills it at its end."""

    def __init__(self, *arguments: str | Path, columns: int = 80, rows: int = 40) -> None:
        self._arguments = [*COMMAND, *map(str, arguments)]
        self._size = struct.pack("HHHH", rows, columns, 0, 0)
        self.raw = ""
        """All that was written so far, with control sequences."""

    def __enter__(self) -> Self:
        self._end, theirs = pty.openpty()
        self._ready = select.poll()  # select() takes no descriptor above 1,023
        self._ready.register(self._end, select.POLLIN)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, self._size)
        environ = {**ENVIRON, "TERM": "xterm-256color"}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environ.pop(name, None)
        self.process = subprocess.Popen(
            self._arguments,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environ,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
        )
        os.close(theirs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)

    @property
    def text(self) -> str:
        """Without control sequences; what is written over a line stands on a line of its own."""
        return _CONTROL.sub("", self.raw).replace("\r\n", "\n").replace("\r", "\n")

    def press(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def read_until(self, condition: str, after: int = 0, timeout_s: float = TIMEOUT_S) -> int:
        """Read until the text has it beyond position ``after``; returns the position behind it."""
        deadline_s = time.monotonic() + timeout_s
        while condition not in self.text[after:]:
            assert time.monotonic() < deadline_s, f"no {condition!r} within {timeout_s} s after:\n{self.text[after:]}"
            assert self._read(), f"it ended without {condition!r} after:\n{self.text[after:]}"
        return self.text.index(condition, after) + len(condition)

    def read_to_the_end(self, timeout_s: float = TIMEOUT_S) -> int:
        """Until it ends; returns the exit code."""
        deadline_s = time.monotonic() + timeout_s
        while self._read():
            assert time.monotonic() < deadline_s, f"it did not end within {timeout_s} s:\n{self.text}"
        return self.process.wait(TIMEOUT_S)

    def _read(self) -> bool:
        """Whatever comes within a moment; False when it has ended."""
        if not self._ready.poll(200):
            return True
        try:
            data = os.read(self._end, 65_536)
        except OSError:  # the other end is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)
