"""Simulated machines for tests: network namespaces on a bridge, which do not see the test's folders.

The bridge has its own namespace, too, because a firewall of the real machine (for example Docker's) may drop forwarded
packets.

Needs root and iproute2. ``ip netns list`` shows machines that a killed test left behind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest


class Machine(NamedTuple):
    """``before``: the prefix of a command that runs on it. The hidden folder is empty there."""

    address: str
    before: tuple[str, ...]


@contextmanager
def machines(count: int, hidden: Path) -> Iterator[tuple[str, list[Machine]]]:
    """The address at which they reach this machine, and this many machines."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.fail("network namespaces need root and iproute2", pytrace=False)
    name, network = f"kz{os.getpid()}", f"10.213.{os.getpid() % 250}"
    with ExitStack() as made:

        def make(command: str, undo: str | None = None) -> None:
            subprocess.run(command.split(), check=True, capture_output=True)
            if undo is not None:
                made.callback(subprocess.run, undo.split(), check=False, capture_output=True)

        make(f"ip netns add {name}", f"ip netns del {name}")
        make(f"ip -n {name} link add bridge type bridge")
        make(f"ip -n {name} link set bridge up")
        make(f"ip link add {name}v1 type veth peer name to1 netns {name}", f"ip link del {name}v1")
        make(f"ip addr add {network}.1/24 dev {name}v1")
        make(f"ip link set {name}v1 up")
        make(f"ip -n {name} link set to1 master bridge up")
        found = []
        for number in range(2, count + 2):
            there, link = f"{name}-{number}", f"to{number}"
            make(f"ip netns add {there}", f"ip netns del {there}")
            make(f"ip -n {name} link add {link} type veth peer name eth0 netns {there}")
            make(f"ip -n {name} link set {link} master bridge up")
            make(f"ip -n {there} addr add {network}.{number}/24 dev eth0")
            for device in ("lo", "eth0"):
                make(f"ip -n {there} link set {device} up")
            mount = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
            found.append(
                Machine(f"{network}.{number}", ("ip", "netns", "exec", there, "sh", "-c", mount, str(hidden)))
            )
        yield f"{network}.1", found
