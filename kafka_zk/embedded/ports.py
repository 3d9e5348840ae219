"""TCP ports on this machine, and the four-letter words of a ZooKeeper server."""

import contextlib
import errno
import random
import socket
from collections import deque
from typing import Any

LOCALHOST = "127.0.0.1"

MOST_ANSWER_BYTES = 4 << 20


SERVER_PORTS = range(20_000, 32_000)
"""Below the ephemeral ports of Linux (from 32768) and macOS (from 49152): a connection of any process may take an
ephemeral port before the server that was given it listens.
"""
_MOST_TRIES = 10_000
_random = random.SystemRandom()  # processes with equal seeds, such as test workers, get different ports
_given: deque[int] = deque(maxlen=200)
"""The last ports that were returned. A server that was given a port may not listen on it yet."""


class AnswerTooLong(Exception):
    """``str()`` names the four-letter word."""


def free_port(host: str = LOCALHOST) -> int:
    """A port that was free a moment ago and was not returned recently."""
    return free_ports(1, host)[0]


def free_ports(count: int, host: str = LOCALHOST) -> list[int]:
    """Several different ports, each as from ``free_port``. Raises: OSError if there are too few."""
    family, (name, _, *more) = _address(host, 0)
    with contextlib.ExitStack() as probes:
        ports: list[int] = []
        for _ in range(_MOST_TRIES):
            if len(ports) == count:
                _given.extend(ports)
                return ports
            port = _random.choice(SERVER_PORTS)
            if port not in _given and _is_bound(probes.enter_context(socket.socket(family)), (name, port, *more)):
                ports.append(port)
    raise OSError(errno.EADDRINUSE, f"no free port found from {SERVER_PORTS[0]} to {SERVER_PORTS[-1]}")


def _is_bound(probe: socket.socket, address: tuple[Any, ...]) -> bool:
    """Bind the probe; False if the port is in use."""
    try:
        probe.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def can_listen(port: int, host: str = LOCALHOST) -> bool:
    """True if a server can bind the port. Connections in TIME_WAIT do not prevent that.

    ``host``: an IPv4 or IPv6 address, or a name; empty: all interfaces.
    """
    try:
        family, address = _address(host, port)
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError:
        return False
    return True


def _address(host: str, port: int) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    if not host:
        return socket.AF_INET, ("", port)
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return family, address


def four_letter_word(
    word: str, port: int, host: str = LOCALHOST, timeout_s: float = 2, most_bytes: int = MOST_ANSWER_BYTES
) -> str:
    """The response to a command such as ``srvr``; empty without a response.

    Raises: AnswerTooLong.
    """
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(word.encode())
            answer = bytearray()
            while chunk := connection.recv(65_536):
                answer += chunk
                if len(answer) > most_bytes:
                    raise AnswerTooLong(f"{host}:{port} answers {word} with more than {most_bytes} bytes")
            return answer.decode(errors="replace")
    except OSError:
        return ""
