"""Attacks on a listener's memory, a process for each: ``python -m tests.kafka_zk.network.memory_attacks NAME``.

Prints the resident memory before the attack, at its peak and after it, in MB, and what the listener logged. The garbage
collector runs as in a broker, never on demand: memory must be freed without it.
"""

import contextlib
import gc
import json
import re
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from twisted.logger import ILogObserver, globalLogPublisher

from kafka_zk.broker.process.server import GC_THRESHOLDS
from kafka_zk.network.memory_pool import MemoryPool
from tests.kafka_zk.network.harness import LocalReactor, receive_all
from tests.kafka_zk.network.server import Server, answer, request

MB = 1024 * 1024
TIMEOUT_S = 60
_CHUNK = b"\x7f" * MB  # no API has this key


def memory_mb(field: str) -> float:
    """VmRSS or VmHWM."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


class Attack:
    """A listener and its clients."""

    def __init__(self) -> None:
        self.reactor = LocalReactor()
        self.log: list[str] = []
        globalLogPublisher.addObserver(cast(ILogObserver, self._observe))
        self.pool = MemoryPool()
        self.server = Server(self.reactor, memory=self.pool)
        self.server.handler = lambda header, body: [struct.pack(">i", header.correlation_id)]
        self._ask()  # loads the modules and objects that stay

    def _observe(self, event: Any) -> None:
        if event["log_level"].name in ("warn", "error", "critical"):
            self.log.append((event.get("log_format") or "").format(**event))

    def _ask(self) -> None:
        """Send an honest request and await its response."""
        peer = self.server.connect()
        peer.sendall(request(1))
        assert receive_all(self.reactor, peer, 8) == answer(1)
        self.hang_up(peer)

    def connect(self) -> socket.socket:
        return self.server.connect()

    def hang_up(self, peer: socket.socket) -> None:
        self.server.peers.remove(peer)
        before = len(self.server.listener.connections)
        peer.close()
        self.reactor.until(lambda: len(self.server.listener.connections) < before)

    def send(self, peer: socket.socket, size_bytes: int) -> int:
        """Send up to ``size_bytes`` while the listener reads; returns the number of bytes sent."""
        peer.setblocking(False)
        sent, quiet = 0, 0
        while sent < size_bytes and quiet < 100:
            try:
                sent += peer.send(_CHUNK[: size_bytes - sent])
                quiet = 0
            except BlockingIOError:
                quiet += 1
            self.reactor.turn(0)
        for _ in range(5):
            self.reactor.turn(0)
        return sent

    def send_all(self, peer: socket.socket, size_bytes: int) -> None:
        """Send all bytes and wait until the listener has read them, however slow the machine is."""
        peer.setblocking(False)
        deadline_s = time.monotonic() + TIMEOUT_S
        sent = 0
        while sent < size_bytes:
            assert time.monotonic() < deadline_s, f"{sent} of {size_bytes} bytes were read within {TIMEOUT_S} s"
            with contextlib.suppress(BlockingIOError):
                sent += peer.send(_CHUNK[: size_bytes - sent])
            self.reactor.turn(0)
        for _ in range(5):
            self.reactor.turn(0)


def announce(attack: Attack, size_bytes: int) -> socket.socket:
    peer = attack.connect()
    peer.sendall(struct.pack(">i", size_bytes))
    return peer


def cut(attack: Attack) -> None:
    """A producer on a bad network: it repeatedly sends almost a whole big request, then nothing."""
    for _ in range(10):
        peer = announce(attack, 100 * MB)
        attack.send_all(peer, 95 * MB)
        attack.hang_up(peer)


def malformed(attack: Attack) -> None:
    """Big requests that are refused once they are complete."""
    for _ in range(10):
        peer = announce(attack, 95 * MB)
        attack.send_all(peer, 95 * MB)
        attack.server.peers.remove(peer)
        attack.reactor.until(lambda: not attack.server.listener.connections, 30)
        peer.close()


def announced(attack: Attack) -> None:
    """Many clients announce big requests and send little of them."""
    for _ in range(500):
        attack.send(announce(attack, 100 * MB), 1024)


def held(attack: Attack) -> None:
    """Many clients send most of a big request and then stop. A small request is served all the same, and so is a batch
    of 1 MB.
    """
    for _ in range(20):
        attack.send(announce(attack, 100 * MB), 95 * MB)
    peer = attack.connect()
    for number, size_bytes in ((1, 100), (2, 1000 * 1000)):
        data = request(number, bytes(size_bytes))
        peer.setblocking(True)
        peer.settimeout(0.01)
        sent = 0
        while sent < len(data):
            sent += peer.send(data[sent:])
            attack.reactor.turn(0)
        assert receive_all(attack.reactor, peer, 8) == answer(number)


def held_small(attack: Attack) -> None:
    """Thousands of clients send a part of a request."""
    for _ in range(3000):
        attack.send(announce(attack, MB), 120 * 1024)


ATTACKS: dict[str, Callable[[Attack], None]] = {
    function.__name__: function for function in (cut, malformed, announced, held, held_small)
}


def main() -> None:
    attack = Attack()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.freeze()
    before = memory_mb("VmRSS")
    ATTACKS[sys.argv[1]](attack)
    print(
        json.dumps({"before": before, "peak": memory_mb("VmHWM"), "after": memory_mb("VmRSS"), "log": attack.log[:100]})
    )


if __name__ == "__main__":
    main()
