"""One connection's requests whose responses are not sent yet.

After its append, a Produce with acks=all only waits for followers and no longer needs its records. Its Deferred then
has ``kept_bytes`` that are not None, and the next Produce begins, so that followers fetch the records of several
requests at a time. Kafka begins the next Produce after the response; clients see only a different latency.

Pure.
"""

from collections import deque
from typing import Any

from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestHeader

MAX_REQUESTS = 5
"""``max.in.flight.requests.per.connection`` of Kafka's producer."""

Response = list[Part] | None
"""The parts of a response, with header and without size prefix; None if the request gets no response (acks=0)."""

Outcome = Response | Exception
"""A response, or the exception that closes the connection instead."""


class InFlightRequest:
    """One request in flight.

    Attributes:
        kept_bytes: memory that the request needs until it is done.
        awaited: the Deferred that its handler awaits; None when done.
        is_done: ``outcome`` is valid.
    """

    __slots__ = ("awaited", "header", "is_done", "kept_bytes", "outcome")

    def __init__(self, header: RequestHeader, kept_bytes: int) -> None:
        self.header = header
        self.kept_bytes = kept_bytes
        self.awaited: Any = None
        self.is_done = False
        self.outcome: Outcome = None


class InFlight(deque[InFlightRequest]):
    """The requests in flight, oldest first. ``kept_bytes``: sum of those not done."""

    def __init__(self) -> None:
        super().__init__()
        self.kept_bytes = 0
        self._has_failed = False

    @property
    def is_full(self) -> bool:
        """True if the next request must wait: MAX_REQUESTS are in flight, or one has failed, which closes the
        connection."""
        return self._has_failed or len(self) >= MAX_REQUESTS

    def begin(self, header: RequestHeader, kept_bytes: int = 0) -> InFlightRequest:
        """Add a request that lets the next one begin, or that is done before earlier ones."""
        request = InFlightRequest(header, kept_bytes)
        self.kept_bytes += kept_bytes
        self.append(request)
        return request

    def end(self, request: InFlightRequest, outcome: Outcome) -> None:
        """Set a request's outcome. Its response may still wait for earlier ones."""
        request.awaited = None
        request.is_done = True
        request.outcome = outcome
        self._has_failed = self._has_failed or isinstance(outcome, Exception)
        self.kept_bytes -= request.kept_bytes
