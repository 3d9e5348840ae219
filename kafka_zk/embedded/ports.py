"""TCP ports on this machine, and the four-letter words of a ZooKeeper server."""

import contextlib
import socket

LOCALHOST = "127.0.0.1"


def free_port(host: str = LOCALHOST) -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def free_ports(count: int, host: str = LOCALHOST) -> list[int]:
    """``count`` different ports that nobody listened on a moment ago."""
    with contextlib.ExitStack() as probes:
        ports = []
        for _ in range(count):
            probe = probes.enter_context(socket.socket())
            probe.bind((host, 0))
            ports.append(probe.getsockname()[1])
        return ports


def can_listen(port: int, host: str = LOCALHOST) -> bool:
    """Whether a server could bind ``port`` now (connections of an ended server in TIME_WAIT do not matter)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def four_letter_word(word: str, port: int, host: str = LOCALHOST, timeout_s: float = 2) -> str:
    """What a ZooKeeper server answers to a command such as ``srvr``; empty when nothing answers."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(word.encode())
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
            return answer.decode(errors="replace")
    except OSError:
        return ""
