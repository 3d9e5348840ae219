"""A mapping that drops unused entries, for state about peers, which choose their own names."""

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_NEVER_MS = -(2**62)
_DROPPED_AT_ONCE = 4


class YoungGeneration(dict[K, V]):
    """A lookup of a missing key returns ``find(key)``; until ``find`` is set, the lookup raises KeyError."""

    find: Callable[[K], V]

    def __missing__(self, key: K) -> V:
        if not hasattr(self, "find"):
            raise KeyError(key)
        return self.find(key)


class Recent(Generic[K, V]):
    """Keeps entries for ``keep_ms`` to ``2 * keep_ms`` after their last use.

    It holds at most ``2 * most`` entries, plus dropped ones that are not freed yet. There are two generations. A used
    entry moves to the younger generation. When the younger generation is full or old, it becomes the older one.
    """

    def __init__(self, most: int, keep_ms: int) -> None:
        self.young: YoungGeneration[K, V] = YoungGeneration()
        """The younger generation, always the same object, for fast lookups. Use ``find`` for missing keys."""
        self._old: dict[K, V] = {}
        self._dropped: dict[K, V] = {}  # freed step by step, because freeing thousands of values takes many ms
        self._most = most
        self._keep_ms = keep_ms
        self._since_ms: float = _NEVER_MS

    def __len__(self) -> int:
        return len(self.young) + len(self._old)

    def find(self, key: K, now_ms: float) -> V | None:
        """The value of ``key``, or None if it has no value. Marks the entry as used."""
        self.drop_old(now_ms)
        value = self.young.get(key)
        if value is None:
            value = self._old.pop(key, None)
            if value is not None:
                self.young[key] = value
        return value

    def put(self, key: K, value: V, now_ms: float) -> None:
        """``key`` must have no value yet."""
        self.drop_old(now_ms)
        self.young[key] = value
        for _ in range(min(_DROPPED_AT_ONCE, len(self._dropped))):
            self._dropped.popitem()

    def drop_old(self, now_ms: float) -> None:
        """Drop old entries. ``find`` and ``put`` do this, too. Call it occasionally in case neither is called."""
        if len(self.young) >= self._most or now_ms - self._since_ms >= self._keep_ms:
            self._dropped, self._old, self._since_ms = self._old, dict(self.young), now_ms
            self.young.clear()

    def clear(self) -> None:
        self.young.clear()
        self._old.clear()
        self._dropped.clear()

    def items(self) -> list[tuple[K, V]]:
        """All entries, the younger generation first."""
        return [*self.young.items(), *self._old.items()]
