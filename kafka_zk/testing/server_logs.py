"""The servers' warnings during a test, which the plugin attaches to a test that fails."""

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.process import ChildProcess
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper

Server = TypeVar("Server", EmbeddedCluster, EmbeddedZooKeeper)

ENTRIES_SHOWN = 20
"""Number of each server's newest entries that are shown; earlier ones are only counted."""
LINES_SHOWN = 8
"""Maximum number of lines shown for each entry, because stack traces are long."""

_ENTRY = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S* (?:\[.*?\] (?:- )?)?(\w+)\s|(Error: |Exception in thread )")
_QUIET = frozenset(("TRACE", "DEBUG", "INFO", "NOTICE"))


def warnings(text: str) -> list[str]:
    """WARN or worse, each with the lines of its stack trace.

    An entry begins with a time and a level, as brokers and every ZooKeeper since 3.4 write them.
    """
    entries: list[list[str]] = []
    loud = False
    for line in text.splitlines():
        if entry := _ENTRY.match(line):
            loud = entry[1] not in _QUIET
            if loud:
                entries.append([])
        if loud:
            entries[-1].append(line)
    return ["\n".join([*lines[:LINES_SHOWN], *(["    …"] if len(lines) > LINES_SHOWN else [])]) for lines in entries]


class LogFile(NamedTuple):
    name: str
    path: Path

    @property
    def where(self) -> str:
        return str(self.path)

    def mark(self) -> tuple[int, int]:
        """The log's inode and size in bytes."""
        with contextlib.suppress(FileNotFoundError):
            stat = self.path.stat()
            return stat.st_ino, stat.st_size
        return 0, 0

    def since(self, mark: tuple[int, int] | None) -> str:
        """What was logged after ``mark`` (None: everything). After a log rotation, the content of the newest file."""
        inode, position = mark or (0, 0)
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as log:
            log.seek(position if os.fstat(log.fileno()).st_ino == inode else 0)
            return log.read().decode(errors="replace")
        return ""


class HasOutput(Protocol):
    def output(self, since_s: float | None = None) -> str: ...


class ContainerLog(NamedTuple):
    name: str
    server: HasOutput

    @property
    def where(self) -> str:
        return "in a container"

    def mark(self) -> float:
        return time.time()

    def since(self, mark: float | None) -> str:
        return self.server.output(mark)


class ServerLogs:
    """The logs of all servers of the fixtures, from the beginning of a test.

    Output during a start is shown only if the start fails, because ZooKeeper warns about its defaults.
    """

    def __init__(self) -> None:
        self._shared: list[EmbeddedCluster | EmbeddedZooKeeper] = []
        self._own: list[EmbeddedCluster | EmbeddedZooKeeper] = []
        self._marks: dict[LogFile | ContainerLog, Any] = {}

    @contextlib.contextmanager
    def watched(
        self, server: Server, *, shared: bool = False, start: Callable[[Server], object] | None = None
    ) -> Iterator[Server]:
        """Run a server within the block. ``shared``: used by several tests. ``start``: called first, to start it."""
        (self._shared if shared else self._own).append(server)
        if start is not None:
            start(server)
        with server:
            self._mark(server)
            yield server

    def begin_test(self) -> None:
        """Exclude everything logged so far from the report."""
        self._own.clear()
        self._marks.clear()
        for server in self._shared:
            self._mark(server)

    def report(self) -> str:
        """WARN and worse since the test began, by server."""
        parts = []
        for log in [log for server in (*self._shared, *self._own) for log in _logs(server)]:
            if entries := warnings(log.since(self._marks.get(log))):
                hidden = len(entries) - ENTRIES_SHOWN
                count = f", the last {ENTRIES_SHOWN} of {len(entries)}" if hidden > 0 else ""
                parts.append("\n".join([f"{log.name} ({log.where}{count}):", *entries[-ENTRIES_SHOWN:]]))
        return "\n\n".join(parts)

    def _mark(self, server: EmbeddedCluster | EmbeddedZooKeeper) -> None:
        self._marks |= {log: log.mark() for log in _logs(server)}


def _logs(server: EmbeddedCluster | EmbeddedZooKeeper | HasOutput) -> list[LogFile | ContainerLog]:
    if isinstance(server, EmbeddedCluster):
        return [_broker_log(broker.process.name, broker.process) for broker in server.brokers]
    if isinstance(server, EmbeddedZooKeeper):
        return [LogFile("ZooKeeper", server.data_dir / "zookeeper.log")]
    return [ContainerLog("ZooKeeper", server)]


def _broker_log(name: str, process: ChildProcess | HasOutput) -> LogFile | ContainerLog:
    return LogFile(name, process.log_file) if isinstance(process, ChildProcess) else ContainerLog(name, process)
