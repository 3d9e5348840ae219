"""Parses a ZooKeeper server's responses to four-letter words. Pure.

``srvr``, the only word that is enabled by default since 3.5.3:

    Latency min/avg/max: 0/0.5/30      milliseconds, since the server started
    Connections: 3
    Outstanding: 0                     requests that wait
    Zxid: 0x100000004                  epoch in the high half; only if the server serves
    Mode: leader

``mntr`` has the same as ``zk_server_state<TAB>leader`` and so on, without the zxid; ``ruok`` only says ``imok``. A
server without a quorum responds with one sentence instead.
Source: ZooKeeper Administrator's Guide 3.9, "The Four Letter Words"; StatCommand.java and MonitorCommand.java@3.9.
"""

import re
from typing import NamedTuple

WORDS = ("srvr", "mntr", "ruok")
"""The words that a poll needs, the most informative first."""
SERVES = "serves"
ANSWERS = "answers"
"""The state of a server that runs but does not reveal whether it serves."""
NO_QUORUM, NO_ANSWER = "no quorum", "no answer"
DOWN = (NO_QUORUM, NO_ANSWER)
"""States in which a server, or the ensemble, serves no client."""
_MODES = ("leader", "follower", "observer", "standalone", "read-only")
_NOT_ALLOWED = "is not executed because it is not in the whitelist"
_NOT_SERVING = "not currently serving requests"
_MOST_DIGITS = 18
_OF_MNTR = {
    "zk_server_state": "Mode", "zk_max_latency": "Latency min/avg/max", "zk_outstanding_requests": "Outstanding",
    "zk_num_alive_connections": "Connections",
}  # fmt: skip
_FIELD = re.compile(
    rf"^(Connections|Outstanding|Zxid|Mode|Latency min/avg/max|{'|'.join(_OF_MNTR)})(?:: |\t)(\S+)", re.MULTILINE
)


class Reading(NamedTuple):
    """One poll of a server.

    ``state``: as in ``events.ServerStateChanged``. ``why``: the reason in a few words, "" if the server serves.
    ``response_ms``: the duration of the poll. The other numbers are None if the server does not reveal them.
    """

    state: str
    why: str = ""
    response_ms: int = 0
    outstanding: int | None = None
    connections: int | None = None
    latency_max_ms: int | None = None
    zxid: int | None = None


def is_refusal(answer: str) -> bool:
    """True if the server does not allow the word."""
    return _NOT_ALLOWED in answer


def parse(answer: str, response_ms: int) -> Reading:
    """The reading of a response to one of WORDS. A response that is not ZooKeeper's counts as no answer."""
    if _NOT_SERVING in answer:
        return Reading(NO_QUORUM, "it runs, but has no quorum or is starting", response_ms)
    if is_refusal(answer) or answer.strip() == "imok":
        return Reading(ANSWERS, response_ms=response_ms)
    fields = {_OF_MNTR.get(name, name): value for name, value in _FIELD.findall(answer)}
    mode = fields.get("Mode", "")
    if mode not in _MODES:
        return Reading(NO_ANSWER, "something other than ZooKeeper responds" if answer else "it closed the connection")
    latency = fields.get("Latency min/avg/max", "").split("/")
    return Reading(
        mode,
        response_ms=response_ms,
        outstanding=_number(fields.get("Outstanding", "")),
        connections=_number(fields.get("Connections", "")),
        latency_max_ms=_number(latency[-1]),
        zxid=_zxid(fields.get("Zxid", "")),
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _zxid(text: str) -> int | None:
    return int(text, 16) if re.fullmatch(r"0x[0-7]?[0-9a-f]{1,15}", text) else None
