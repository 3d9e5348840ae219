"""The evidence about a broker that does not respond: the end of its log, the kernel functions that hold its threads,
the load of the disk, and the stacks of its threads.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.process import ChildProcess
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper

STACKS_OF_OURS = ("-X", "faulthandler")
"""Options of Python with which SIGABRT writes the stacks to the log."""
_LINES = 60
_STACKS_S = 10
_POLL_S = 0.05


def text_of(error: BaseException) -> str:
    """An exception's message with its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def log_tail(process: ChildProcess) -> str:
    """The last lines of a server's log."""
    return "\n".join([f"-- the log of {process.name}:", *process.output().splitlines()[-_LINES:]])


def of(brokers: Iterable[BrokerProcess], zookeeper: EmbeddedZooKeeper) -> str:
    """The evidence about the state of a cluster. To write their stacks, our brokers get SIGABRT, which also ends them;
    Java's continue. ZooKeeper's log contains the durations of its fsyncs.
    """
    return "\n".join([*map(_of_one, brokers), log_tail(zookeeper.process), _pressure()])


def _of_one(broker: BrokerProcess) -> str:
    before = log_tail(broker.process)
    if not broker.alive:
        return f"{before}\n-- {broker.process.describe_end()}"
    held = _held(broker.pid)
    size = len(broker.process.output())
    is_ours = STACKS_OF_OURS[-1] in broker.process.command
    os.kill(broker.pid, signal.SIGABRT if is_ours else signal.SIGQUIT)
    deadline_s = time.monotonic() + _STACKS_S
    while time.monotonic() < deadline_s and not (is_ours and not broker.alive):
        if "Heap\n" in broker.process.output()[size:]:  # Java writes this after the stacks
            break
        time.sleep(_POLL_S)
    return f"{before}\n{held}\n-- its stacks:\n{broker.process.output()[size:]}"


def _held(pid: int) -> str:
    """Each thread's state, and the kernel function in which it waits: ``D`` with ``fsync`` in the stack means the disk.
    """
    lines = ["-- its threads in the kernel:"]
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        with suppress(OSError, IndexError):
            name = (task / "comm").read_text().strip()
            state = (task / "stat").read_text().rpartition(") ")[2][0]
            calls = [line.split()[-1].partition("+")[0] for line in (task / "stack").read_text().splitlines()[:12]]
            lines.append(f"{task.name} {name} {state}: {' < '.join(calls)}")
    return "\n".join(lines)


def _pressure() -> str:
    path = Path("/proc/pressure/io")
    return f"-- the machine's wait for disks:\n{path.read_text()}" if path.exists() else ""
