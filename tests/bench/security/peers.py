"""Clients that only make handshakes, log in or stay connected: OpenSSL's, and our own client's half of SCRAM."""

from __future__ import annotations

import functools
import re
import socket
import ssl
import struct
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.security import scram
from tests.bench.partition_wire import Refused, Wire
from tests.bench.security.brokers import MECHANISM, PASSWORD, USER

_SIDE_BY_SIDE = 2
_LOGINS_SIDE_BY_SIDE = 4
_COUNTED = re.compile(r"(\d+) connections in (\d+) real seconds")
_RESUMED_BY = ["-reuse", "-tls1_2"]  # s_time does not accept tickets of TLS 1.3
_NEW_BY = ["-new", "-tls1_3"]


def handshakes(port: int, authority: Path, seconds: int, *, resumed: bool) -> int:
    """Number of handshakes that ``openssl s_time`` completes in about ``seconds``. Raises: Refused."""
    command = ["openssl", "s_time", "-connect", f"127.0.0.1:{port}", "-CAfile", str(authority), "-verify", "1",
               "-time", str(seconds), *(_RESUMED_BY if resumed else _NEW_BY)]  # fmt: skip
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(_SIDE_BY_SIDE)
    ]
    count = 0
    for process in running:
        output = process.communicate(timeout=10 * seconds + 60)[0]
        found = _COUNTED.search(output)
        if found is None or not int(found[1]):
            raise Refused(f"openssl s_time: {output[-500:]}")
        count += int(found[1])
    return count


def logins(port: int, seconds: float) -> int:
    """Number of SCRAM logins that succeed within ``seconds``. Clients already have the salted password, so they use
    little CPU. Raises: Refused, OSError.
    """
    ends_s = time.monotonic() + seconds
    counts, failures = list[int](), list[Exception]()

    def log_in_again_and_again() -> None:
        count = 0
        try:
            while time.monotonic() < ends_s:
                log_in(port, f"nonce{threading.get_ident()}{count}")
                count += 1
        except (Refused, OSError) as failure:
            failures.append(failure)
        counts.append(count)

    with mock.patch.object(scram, "salted_password", functools.cache(scram.salted_password)):
        threads = [threading.Thread(target=log_in_again_and_again) for _ in range(_LOGINS_SIDE_BY_SIDE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return sum(counts)


def log_in(port: int, nonce: str) -> None:
    """Log in over one connection, and close it. Raises: Refused, OSError."""
    with Wire(port) as wire:
        wire.send(ApiKey.SASL_HANDSHAKE, 1, _string(MECHANISM))
        (code,) = struct.unpack_from(">h", wire.receive())
        if code:
            raise Refused(f"SaslHandshake: error {code}")
        client = scram.scram_client(MECHANISM, USER, PASSWORD, nonce)
        message = next(client)
        for _ in range(2):
            wire.send(ApiKey.SASL_AUTHENTICATE, 0, struct.pack(">i", len(message)) + message)
            message = _sent(client, _challenge(wire.receive()))


def _sent(client: object, challenge: bytes) -> bytes:
    try:
        return bytes(client.send(challenge))  # type: ignore[attr-defined]
    except StopIteration:
        return b""


def _challenge(answer: bytes) -> bytes:
    """The server's message in SaslAuthenticate 0: error, text, bytes. Raises: Refused."""
    code, size = struct.unpack_from(">hh", answer)
    if code:
        raise Refused(f"SaslAuthenticate: error {code}")
    at = 4 + max(size, 0)
    (count,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + count]


def _string(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def connections(stack: ExitStack, port: int, authority: Path, count: int) -> list[ssl.SSLSocket]:
    """``count`` TLS connections, which ``stack`` closes; each has sent ApiVersions."""
    context = ssl.create_default_context(cafile=str(authority))
    asked = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 0, -1)
    made = []
    for _ in range(count):
        plain = socket.create_connection(("127.0.0.1", port), 30)
        secured = stack.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
        secured.sendall(asked)
        if not secured.recv(4):
            raise Refused("the broker closed a connection")
        made.append(secured)
    return made
