"""Requests of one connection whose answers have not left: the oldest only waits, the others were begun behind it.

A Produce request with acks=all that is appended waits for the followers, and holds no records any more. What awaits
them says so (``kept_bytes``), and the connection begins the next request if it is a Produce, too. So the followers
fetch what several requests brought at once. Every answer waits for those before it.

Kafka's brokers handle the next request of a connection when the one before is answered; a client cannot tell, but by
the time that it takes. Pure. Tests: tests/kafka_zk/network/test_in_flight.py.
"""

from collections import deque
from typing import Any

from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestHeader

MAX_REQUESTS = 5
"""As many as Kafka's producers send by default before they have an answer (max.in.flight.requests.per.connection)."""

Response = list[Part] | None
"""The parts of an answer, header included, size prefix not; None for none (acks=0)."""

Outcome = Response | Exception
"""Instead of an answer, what ends the connection."""


class InFlightRequest:
    """``awaited``: what its handler waits for. ``outcome``: what became of it, once it ``is_done``."""

    __slots__ = ("awaited", "header", "is_done", "kept_bytes", "outcome")

    def __init__(self, header: RequestHeader, kept_bytes: int) -> None:
        self.header = header
        self.kept_bytes = kept_bytes
        self.awaited: Any = None
        self.is_done = False
        self.outcome: Outcome = None


class InFlight(deque[InFlightRequest]):
    """Oldest first. ``kept_bytes``: memory that they hold together."""

    def __init__(self) -> None:
        super().__init__()
        self.kept_bytes = 0
        self._has_failed = False

    @property
    def is_full(self) -> bool:
        """Whether no other request may begin before one is answered."""
        return self._has_failed or len(self) >= MAX_REQUESTS

    def begin(self, header: RequestHeader, kept_bytes: int = 0) -> InFlightRequest:
        """A request lets the next one pass, or is done before those in front of it."""
        request = InFlightRequest(header, kept_bytes)
        self.kept_bytes += kept_bytes
        self.append(request)
        return request

    def end(self, request: InFlightRequest, outcome: Outcome) -> None:
        """A request is done, whenever its turn comes."""
        request.awaited = None
        request.is_done = True
        request.outcome = outcome
        self._has_failed = self._has_failed or isinstance(outcome, Exception)
        self.kept_bytes -= request.kept_bytes
