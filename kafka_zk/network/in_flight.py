"""Requests of one connection whose responses have not left: the oldest still waits, later ones were begun behind it.

After its append, a Produce request with acks=all only waits for the followers and holds no records. Its Deferred says
so (``kept_bytes``), and the connection begins the next Produce. So followers fetch the records of several requests at a
time. Kafka begins the next request only after the response; clients notice nothing but the latency.

Pure. Tests: tests/kafka_zk/network/test_in_flight.py.
"""

from collections import deque
from typing import Any

from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestHeader

MAX_REQUESTS = 5
"""Kafka producers' default for requests without a response (max.in.flight.requests.per.connection)."""

Response = list[Part] | None
"""The parts of a response, with header and without size prefix; None for no response (acks=0)."""

Outcome = Response | Exception
"""A response, or the exception that closes the connection instead."""


class InFlightRequest:
    """One request in flight.

    Attributes:
        kept_bytes: memory that it holds until it is done.
        awaited: the Deferred that its handler awaits; None once it is done.
        is_done: whether ``outcome`` is valid.
        outcome: the response, or the exception that closes the connection.
    """

    __slots__ = ("awaited", "header", "is_done", "kept_bytes", "outcome")

    def __init__(self, header: RequestHeader, kept_bytes: int) -> None:
        self.header = header
        self.kept_bytes = kept_bytes
        self.awaited: Any = None
        self.is_done = False
        self.outcome: Outcome = None


class InFlight(deque[InFlightRequest]):
    """The requests in flight, oldest first. ``kept_bytes``: sum of those that are not done."""

    def __init__(self) -> None:
        super().__init__()
        self.kept_bytes = 0
        self._has_failed = False

    @property
    def is_full(self) -> bool:
        """Whether the next request must wait: there are MAX_REQUESTS, or one has failed, which closes the
        connection."""
        return self._has_failed or len(self) >= MAX_REQUESTS

    def begin(self, header: RequestHeader, kept_bytes: int = 0) -> InFlightRequest:
        """Add a request: it lets the next one begin, or it is done before earlier ones."""
        request = InFlightRequest(header, kept_bytes)
        self.kept_bytes += kept_bytes
        self.append(request)
        return request

    def end(self, request: InFlightRequest, outcome: Outcome) -> None:
        """A request is done; its response may still have to wait for earlier ones."""
        request.awaited = None
        request.is_done = True
        request.outcome = outcome
        self._has_failed = self._has_failed or isinstance(outcome, Exception)
        self.kept_bytes -= request.kept_bytes
