"""Checks whether a ZooKeeper server serves, even if it does not allow four-letter words.

Since 3.5.3 a server responds only to ``srvr`` and to the four-letter words in ``4lw.commands.whitelist``; compatible
servers may refuse even ``srvr``. A probe that confuses a refusal with silence would report healthy servers as dead.
Here, a refusal leads to a second check: does the server open a session?

Source: ZooKeeper Administrator's Guide 3.9, "The Four Letter Words"; ZooKeeperServer and FourLetterCommands@3.9.
"""

import enum
import socket
import struct
from typing import NamedTuple

from kafka_zk.embedded.ports import LOCALHOST, AnswerTooLong, four_letter_word

WORD = "srvr"
_NOT_ALLOWED = "is not executed because it is not in the whitelist"
_MODE = "Mode: "

_CONNECT_REQUEST = struct.Struct(">iqiqi16s?")  # protocol version, last zxid, timeout, session id, size, password, ro
_CONNECT_RESPONSE = struct.Struct(">iiq")  # protocol version, timeout, session id; then the password
_CLOSE_SESSION = struct.pack(">iii", 8, 1, -11)  # size, xid, operation
_SESSION_TIMEOUT_MS = 4_000


class Health(enum.Enum):
    """``SERVING``: accepts requests. ``NOT_SERVING``: runs without a quorum, or is starting. ``DOWN``: no response."""

    SERVING = "serving"
    NOT_SERVING = "not serving"
    DOWN = "down"


class Report(NamedTuple):
    """``mode``: leader, follower, observer or standalone; None if the server does not serve or does not reveal it."""

    health: Health
    mode: str | None
    allowed: bool


class NotAllowed(Exception):
    """The server refuses the four-letter word. The message names the key of ``zoo.cfg`` that allows it."""


class NoAnswer(Exception):
    """The address did not respond."""


def ask(word: str, port: int, host: str = LOCALHOST, timeout_s: float = 2) -> str:
    """Raises: NotAllowed, NoAnswer, AnswerTooLong."""
    answer = four_letter_word(word, port, host, timeout_s)
    if _NOT_ALLOWED in answer:
        raise NotAllowed(f"ZooKeeper at {host}:{port} runs but does not allow {word}: see 4lw.commands.whitelist")
    if not answer:
        raise NoAnswer(f"no response to {word} from {host}:{port}")
    return answer


def probe(port: int, host: str = LOCALHOST, timeout_s: float = 2) -> Report:
    """Check a server with ``srvr`` or, if that is not allowed, by opening and closing a session."""
    try:
        answer = ask(WORD, port, host, timeout_s)
    except NotAllowed:
        return Report(_by_session(host, port, timeout_s), None, allowed=False)
    except (NoAnswer, AnswerTooLong):  # a ZooKeeper's response is shorter
        return Report(Health.DOWN, None, allowed=True)
    if _MODE in answer:
        return Report(Health.SERVING, answer.partition(_MODE)[2].split()[0], allowed=True)
    return Report(Health.NOT_SERVING, None, allowed=True)


def _by_session(host: str, port: int, timeout_s: float) -> Health:
    request = _CONNECT_REQUEST.pack(0, 0, _SESSION_TIMEOUT_MS, 0, 16, bytes(16), False)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = b""
            while len(answer) < 4 + _CONNECT_RESPONSE.size:
                chunk = connection.recv(4096)
                if not chunk:  # a server without a quorum closes the connection
                    return Health.NOT_SERVING
                answer += chunk
            _, granted_ms, session_id = _CONNECT_RESPONSE.unpack_from(answer, 4)
            connection.sendall(_CLOSE_SESSION)
    except OSError:
        return Health.NOT_SERVING  # the server responded to the first command
    return Health.SERVING if granted_ms > 0 and session_id else Health.NOT_SERVING
