"""Limits new connections per second of the broker, its listeners and addresses (KIP-612).

Above its rate, a broker or listener stops accepting for the throttle time, at most one sample. A connection from an
address above its rate is accepted, held unread for that time and closed, and does not count.

Pure. Times: ms on a monotonic clock. Source: ConnectionQuotas in SocketServer.scala@3.9.
"""

from collections.abc import Mapping

from kafka_zk.base.rate import QuotaWindow, Rate
from kafka_zk.base.recent import Recent

UNLIMITED_RATE = 2147483647

MOST_HELD = 1000
"""Maximum number of held connections; further ones are closed immediately."""

_MOST_ADDRESSES = 10_000
_KEEP_MS = 3_600_000


class ConnectionRates:
    """Measures and limits the rates.

    Attributes:
        throttled_ms: listener -> (number of throttles, sum in ms), for the rates of broker and listener.
        address_throttled_ms: the same for addresses.
    """

    def __init__(self, window: QuotaWindow | None = None) -> None:
        self._window = window or QuotaWindow()
        self._bound = UNLIMITED_RATE
        self._listener_bounds: dict[str, int] = {}
        self._address_bounds: dict[str, int] = {}
        self._default_address_bound = UNLIMITED_RATE
        self._rate = Rate(self._window)
        self._listeners: dict[str, Rate] = {}
        self._addresses: Recent[str, Rate] = Recent(_MOST_ADDRESSES, _KEEP_MS)
        self.throttled_ms: dict[str, tuple[int, int]] = {}
        self.address_throttled_ms: dict[str, tuple[int, int]] = {}

    def set_limits(self, bound: int, listener_bounds: Mapping[str, int]) -> None:
        """``max.connection.creation.rate`` of the broker, and of listeners with their own."""
        self._bound = bound
        self._listener_bounds = dict(listener_bounds)

    def set_address_limit(self, address: str | None, bound: int | None) -> None:
        """``connection_creation_rate`` of an address (None: the default); a bound of None removes it."""
        if address is None:
            self._default_address_bound = UNLIMITED_RATE if bound is None else bound
        elif bound is None:
            self._address_bounds.pop(address, None)
        else:
            self._address_bounds[address] = bound

    def is_limited(self, listener: str, *, is_protected: bool) -> bool:
        """True if connections may be throttled. ``is_protected``: on an inter-broker listener, which the broker's rate
        does not limit."""
        return listener in self._listener_bounds or (self._bound != UNLIMITED_RATE and not is_protected)

    def accepted(self, listener: str, now_ms: float, *, is_protected: bool) -> int:
        """Count a connection. Returns how many ms to wait before accepting the next one."""
        rate = self._listeners.setdefault(listener, Rate(self._window))
        throttle_ms = self._throttle_ms(rate, self._listener_bounds.get(listener, UNLIMITED_RATE), now_ms)
        if not is_protected:
            throttle_ms = max(throttle_ms, self._throttle_ms(self._rate, self._bound, now_ms))
        _count(self.throttled_ms, listener, throttle_ms)
        return throttle_ms

    def refused_ms(self, listener: str, address: str, now_ms: float) -> int:
        """Returns 0 and counts the connection if the address's rate allows it; otherwise, how many ms to hold it."""
        bound = self._address_bounds.get(address, self._default_address_bound)
        if bound == UNLIMITED_RATE:
            return 0
        rate = self._addresses.find(address, now_ms)
        if rate is None:
            rate = Rate(self._window)
            self._addresses.put(address, rate, now_ms)
        throttle_ms = self._throttle_ms(rate, bound, now_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        _count(self.address_throttled_ms, listener, throttle_ms)
        return throttle_ms

    def accept_rate(self, listener: str, now_ms: float) -> float:
        """Accepted connections per second."""
        rate = self._listeners.get(listener)
        return 0.0 if rate is None else rate.per_second(now_ms)

    def _throttle_ms(self, rate: Rate, bound: int, now_ms: float) -> int:
        rate.record(1, now_ms)
        if bound == UNLIMITED_RATE:
            rate.forget_old(now_ms)
            return 0
        throttle_ms = rate.throttle_ms(bound, now_ms) if bound else self._window.sample_ms
        return min(max(0, throttle_ms), self._window.sample_ms)


def _count(throttles: dict[str, tuple[int, int]], listener: str, throttle_ms: int) -> None:
    if throttle_ms:
        count, sum_ms = throttles.get(listener, (0, 0))
        throttles[listener] = (count + 1, sum_ms + throttle_ms)
