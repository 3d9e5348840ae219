"""The memory of a broker, including its helper processes."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

SAMPLE_INTERVAL_S = 0.05
_KB = 1024
_MB = 1 << 20


class MemoryWatch:
    """Samples a broker's memory in a thread until it is stopped. ``peak_mb``: the largest value so far.

    It counts the broker's resident memory (and the peak that the kernel keeps) and the proportional share of every
    process in its session: a broker leads its session, so its helpers are found by it.

    Args:
        pid: of the broker, read again for each sample.
        limit_mb, on_limit: to protect the machine, ``on_limit`` is called once when the broker uses more.
    """

    def __init__(self, pid: Callable[[], int], limit_mb: float, on_limit: Callable[[], None]) -> None:
        self._pid = pid
        self._limit_mb = limit_mb
        self._on_limit = on_limit
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak_mb = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self._sample()
            if self.peak_mb > self._limit_mb:
                self._on_limit()
                return
            time.sleep(SAMPLE_INTERVAL_S)
        self._sample()

    def _sample(self) -> None:
        pid = self._pid()
        peak = _status_bytes(pid, "VmHWM")
        now = _status_bytes(pid, "VmRSS") + sum(map(_share_bytes, _helpers(pid)))
        self.peak_mb = max(self.peak_mb, peak / _MB, now / _MB)


def _status_bytes(pid: int, key: str) -> int:
    """A size from /proc/PID/status; 0 if the process has ended."""
    for line in _lines(f"/proc/{pid}/status"):
        if line.startswith(key + ":"):
            return int(line.split()[1]) * _KB
    return 0


def _share_bytes(pid: int) -> int:
    for line in _lines(f"/proc/{pid}/smaps_rollup"):
        if line.startswith("Pss:"):
            return int(line.split()[1]) * _KB
    return 0


def _helpers(session: int) -> list[int]:
    """The processes of a session except its leader."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != session:
            for line in _lines(folder / "stat"):
                fields = line.rpartition(")")[2].split()  # state, parent, process group, session, …
                if int(fields[3]) == session:
                    found.append(int(folder.name))
    return found


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
