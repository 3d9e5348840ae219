"""The local ports of a process's TCP connections, from /proc on Linux."""

import contextlib
import os
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL_ADDRESS, _INODE = 1, 9  # columns


def local_ports(pid: int) -> set[int]:
    """The local ports of all TCP sockets of a process of this user; empty if it has ended, or not on Linux."""
    inodes = _socket_inodes(pid)
    ports = set()
    for table in _TABLES:
        with contextlib.suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                columns = line.split()
                if columns[_INODE] in inodes:
                    ports.add(int(columns[_LOCAL_ADDRESS].rpartition(":")[2], 16))
    return ports


def _socket_inodes(pid: int) -> set[str]:
    inodes = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                target = os.readlink(descriptor)
                if target.startswith("socket:["):
                    inodes.add(target.removeprefix("socket:[").removesuffix("]"))
    return inodes
