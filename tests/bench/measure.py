"""The cost of a process, read from /proc: CPU seconds, resident memory, bytes. Its child processes count as its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_BYTES_PER_KIB = 1024
_JCMD_TIMEOUT_S = 120


class Memory(NamedTuple):
    """Resident bytes of a process tree: all, the anonymous ones among them (heap, not mapped files), and the peak."""

    resident_bytes: int
    anonymous_bytes: int
    peak_bytes: int


def process_tree(pid: int) -> Iterator[int]:
    """`pid` and all its descendants that are alive."""
    yield pid
    try:
        children = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")).split()
    except FileNotFoundError:
        return
    for child in children:
        yield from process_tree(int(child))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its descendants, including those that have ended and were awaited.

    Source: proc(5), fields utime, stime, cutime, cstime of /proc/PID/stat; their grain is 10 ms.
    """
    ticks = 0
    for each in process_tree(pid):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_PER_SECOND


def live_heap_bytes(pid: int) -> int:
    """Bytes of the objects in use in a JVM's heap, after a full collection.

    Source: the last line of jcmd's GC.class_histogram, "Total", instances, bytes. Raises: OSError, CalledProcessError.
    """
    command = ["jcmd", str(pid), "GC.class_histogram"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_JCMD_TIMEOUT_S).stdout
    return int(told.split()[-1])


def written_bytes(pid: int) -> int:
    """The bytes that a process and its descendants have written so far with write and sendfile, to files and sockets
    alike.

    For a broker without producers, these are almost only the records that it sends to consumers. Source: proc(5), wchar
    of /proc/PID/io.
    """
    written = 0
    for each in process_tree(pid):
        try:
            lines = Path(f"/proc/{each}/io").read_text().splitlines()
        except FileNotFoundError:
            continue
        written += next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))
    return written


def memory(pid: int) -> Memory:
    """Resident memory of a process and its descendants."""
    total = [0, 0, 0]
    for each in process_tree(pid):
        try:
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
        except FileNotFoundError:
            continue
        values = dict(line.split(":", 1) for line in lines)
        if "VmRSS" not in values:  # it has ended, and its parent has not waited for it yet
            continue
        for position, key in enumerate(("VmRSS", "RssAnon", "VmHWM")):
            total[position] += int(values[key].split()[0]) * _BYTES_PER_KIB
    return Memory(*total)


def machine_cpu_seconds() -> float:
    """CPU time that all processes and the kernel have used since boot, without idle time and waits for disks.

    Source: proc(5), first line of /proc/stat.
    """
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq = map(int, fields[:7])
    return (user + nice + system + irq + softirq) / _TICKS_PER_SECOND


def descriptor_count(pid: int) -> int:
    """Open file descriptors of one process, without its children."""
    return len(os.listdir(f"/proc/{pid}/fd"))
