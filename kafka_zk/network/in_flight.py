"""Requests of one connection whose responses have not been sent: the oldest still waits, later ones began after it.

After its append, a Produce request with acks=all only waits for the followers and no longer needs its records. Its
Deferred marks this (``kept_bytes``), and the connection begins the next Produce, so followers fetch the records of
several requests at a time. Kafka begins the next request only after the response; clients only see another latency.

Pure.
"""

from collections import deque
from typing import Any

from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestHeader

MAX_REQUESTS = 5
"""Default of ``max.in.flight.requests.per.connection`` in Kafka's producer."""

Response = list[Part] | None
"""The parts of a response, with header and without size prefix; None if the request gets no response (acks=0)."""

Outcome = Response | Exception
"""A response, or the exception that closes the connection instead."""


class InFlightRequest:
    """One request in flight.

    Attributes:
        kept_bytes: memory that the request needs until it is done.
        awaited: the Deferred that its handler awaits; None when the request is done.
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
    """The requests in flight, oldest first. ``kept_bytes``: sum over those that are not done."""

    def __init__(self) -> None:
        super().__init__()
        self.kept_bytes = 0
        self._has_failed = False

    @property
    def is_full(self) -> bool:
        """True if the next request must wait: there are MAX_REQUESTS, or one has failed, which closes the
        connection."""
        return self._has_failed or len(self) >= MAX_REQUESTS

    def begin(self, header: RequestHeader, kept_bytes: int = 0) -> InFlightRequest:
        """Add a request that lets the next one begin, or that is done before earlier ones."""
        request = InFlightRequest(header, kept_bytes)
        self.kept_bytes += kept_bytes
        self.append(request)
        return request

    def end(self, request: InFlightRequest, outcome: Outcome) -> None:
        """Mark a request as done. Its response may still have to wait for earlier ones."""
        request.awaited = None
        request.is_done = True
        request.outcome = outcome
        self._has_failed = self._has_failed or isinstance(outcome, Exception)
        self.kept_bytes -= request.kept_bytes
