"""Bounds the responses that wait in memory until their readers have read them."""

from collections import Counter


class WaitingBytes:
    """Counts what waits for each address.

    Args:
        most: the maximum number of bytes for all addresses.
        most_of_host: the maximum number of bytes for one address.
    """

    def __init__(self, most: int, most_of_host: int) -> None:
        self._most = most
        self._most_of_host = most_of_host
        self._by_host: Counter[str] = Counter()

    def add(self, host: str, size_bytes: int) -> bool:
        """Returns False if the response must not be sent, because too much waits already. A response that is larger
        than the bounds may wait alone.
        """
        of_host, total = self._by_host[host], self._by_host.total()
        if (of_host and of_host + size_bytes > self._most_of_host) or (total and total + size_bytes > self._most):
            return False
        self._by_host[host] += size_bytes
        return True

    def remove(self, host: str, size_bytes: int) -> None:
        """The reader has read the response, or has gone."""
        self._by_host[host] -= size_bytes
        if not self._by_host[host]:
            del self._by_host[host]
