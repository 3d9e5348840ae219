"""The TCP sockets of a process: from /proc, or else from the program ``lsof``, which macOS includes."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_TABLE, _TABLE_OF_IPV6 = Path("/proc/net/tcp"), Path("/proc/net/tcp6")
_LOCAL_ADDRESS, _STATE, _INODE = 1, 3, 9  # columns
_LISTEN = "0A"
_LSOF_TIMEOUT_S = 10


class TcpSocket(NamedTuple):
    local_port: int
    is_listening: bool


def local_ports(pid: int) -> set[int]:
    """The local ports of all TCP sockets of a process of this user; empty if it has ended.

    Raises: FileNotFoundError on a system that has neither /proc nor lsof.
    """
    return {found.local_port for found in tcp_sockets(pid)}


def listens(pid: int, port: int) -> bool:
    """True if a process of this user listens on ``port``. Raises: as ``local_ports``."""
    return TcpSocket(port, True) in tcp_sockets(pid)


def tcp_sockets(pid: int) -> list[TcpSocket]:
    """Raises: as ``local_ports``."""
    try:
        rows = _TABLE.read_text().splitlines()[1:]
    except OSError:
        return _parsed(_lsof(pid))
    with contextlib.suppress(OSError):
        rows += _TABLE_OF_IPV6.read_text().splitlines()[1:]
    inodes = set(_inodes(pid))
    return [
        TcpSocket(int(columns[_LOCAL_ADDRESS].rpartition(":")[2], 16), columns[_STATE] == _LISTEN)
        for columns in map(str.split, rows)
        if columns[_INODE] in inodes
    ]


def _inodes(pid: int) -> Iterator[str]:
    """The inodes of the process's sockets."""
    with contextlib.suppress(OSError):  # the process has ended
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # the descriptor has been closed
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith("socket:["):
                    yield target.removeprefix("socket:[").removesuffix("]")


def _lsof(pid: int) -> str:
    """One field per line; its first letter is the type (n: addresses, T: TCP state). Empty without a socket."""
    command = ["lsof", "-nP", "-a", "-p", str(pid), "-iTCP", "-FnT"]
    return subprocess.run(command, capture_output=True, text=True, timeout=_LSOF_TIMEOUT_S, check=False).stdout


def _parsed(fields: str) -> list[TcpSocket]:
    """Sockets that are not bound have the port ``*``, and are left out."""
    found: list[TcpSocket] = []
    port = ""
    for field in fields.splitlines():
        if field.startswith("n"):
            port = field[1:].partition("->")[0].rpartition(":")[2]
        elif field.startswith("TST=") and port.isdigit():
            found.append(TcpSocket(int(port), field == "TST=LISTEN"))
    return found
