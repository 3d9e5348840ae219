"""Caches which topics clients may describe, so that Metadata of all topics needs no Python step per cached decision.

Above a limit, the decisions for clients without a request for IDLE_S are dropped; if there are no such clients, nothing
more is cached. (Clients request all topics in turn, so a least-recently-used cache would never hit.)
"""

from collections.abc import Callable, Sequence
from sys import getsizeof
from typing import NamedTuple

from kafka_zk.broker.security.acl_rules import Reach

IDLE_S = 60


class _Asked(NamedTuple):
    reach: Reach
    last_s: float


class VisibleTopics:
    """The cached decisions of all clients.

    Args:
        reach_of: returns the ``Reach`` of a principal and host, valid until ``clear``.
        most: maximum number of cached decisions.
        longest_bytes: longest principal to cache, as its size in memory.
    """

    def __init__(
        self, reach_of: Callable[[str, str], Reach], seconds: Callable[[], float], most: int, longest_bytes: int
    ) -> None:
        self._reach_of = reach_of
        self._seconds = seconds
        self._most = most
        self._longest_bytes = longest_bytes
        self._clients: dict[tuple[str, str], _Asked] = {}  # in order of last requests
        self.count = 0  # cached decisions

    def among(self, principal: str, host: str, names: Sequence[str]) -> list[str]:
        """The visible topics among ``names``, in the same order."""
        asked = self._clients.pop((principal, host), None)
        reach = self._reach_of(principal, host) if asked is None else asked.reach
        known_count = len(reach)
        visible = list(filter(reach.__getitem__, names))
        if getsizeof(principal) <= self._longest_bytes:
            now_s = self._seconds()
            self.count += len(reach) - known_count
            self._keep_bound(reach, now_s)
            if reach:
                self._clients[principal, host] = _Asked(reach, now_s)
        return visible

    def _keep_bound(self, reach: Reach, now_s: float) -> None:
        while self.count > self._most and self._clients:
            client = next(iter(self._clients))
            if now_s - self._clients[client].last_s < IDLE_S:
                break
            self.count -= len(self._clients.pop(client).reach)
        while self.count > self._most and reach:
            reach.popitem()
            self.count -= 1

    def clear(self) -> None:
        """Forget all decisions, because the ACLs have changed."""
        self._clients.clear()
        self.count = 0
