"""A cache of the most recently used values, up to a total size. Several threads may use it."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ENTRY_BYTES = 400  # memory of an entry, without the value


class RecentValues(Generic[K, V]):
    """A cache of at most ``max_bytes``, which may change. One value is kept even if it alone is larger."""

    def __init__(self, max_bytes: Callable[[], int]) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def keep(self, key: K, value: V, value_bytes: int) -> None:
        """Add a value. If the key is in the cache, its value stays."""
        most_bytes, size_bytes = self._max_bytes(), value_bytes + _ENTRY_BYTES
        with self._lock:
            if key not in self._kept:
                self._kept[key] = value, size_bytes
                self._size_bytes += size_bytes
            while self._size_bytes > most_bytes and len(self._kept) > 1:
                self._size_bytes -= self._kept.popitem(last=False)[1][1]
