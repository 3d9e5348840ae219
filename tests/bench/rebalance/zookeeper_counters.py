"""ZooKeeper's own counts of requests and notifications, by its four-letter word ``mntr`` (3.6 or later)."""

from __future__ import annotations

from typing import NamedTuple

from kafka_zk.embedded.ports import four_letter_word

_NOTIFICATIONS = tuple(f"zk_sum_node_{kind}_watch_count" for kind in ("created", "deleted", "changed", "children"))


class Counters(NamedTuple):
    """The counts since the server's start. ``requests`` include pings, new and closed sessions; ``writes`` are part of
    them.
    """

    requests: int
    writes: int
    notifications: int
    expired_sessions: int

    def since(self, earlier: Counters) -> Counters:
        return Counters(*(now - before for now, before in zip(self, earlier, strict=True)))


class CountersRefused(Exception):
    """The server does not respond to ``mntr``: it is down, or does not allow the word."""


def read(port: int) -> Counters:
    """Raises: CountersRefused."""
    values = _mntr(port)
    try:
        return Counters(
            int(values["zk_prep_processor_request_queued"]),
            int(values["zk_cnt_updatelatency"]),
            sum(int(values[name]) for name in _NOTIFICATIONS),
            int(values["zk_stale_sessions_expired"]),
        )
    except KeyError as missing:
        raise CountersRefused(f"mntr of the ZooKeeper at port {port} has no {missing}") from missing


def session_count(port: int) -> int:
    """The number of current sessions, including those of killed processes until they expire. Raises: CountersRefused.
    """
    values = _mntr(port)
    if "zk_global_sessions" not in values:
        raise CountersRefused(f"mntr of the ZooKeeper at port {port} does not count sessions")
    return int(values["zk_global_sessions"])


def _mntr(port: int) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in four_letter_word("mntr", port).splitlines() if "\t" in line)
