"""A mapping that forgets what is not used. It holds what is known of peers, which choose their names freely."""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_NEVER_MS = -(2**62)
_DROPPED_AT_ONCE = 4


class Recent(Generic[K, V]):
    """A mapping that keeps what was asked for in the last ``keep_ms``, or twice that, and no more than ``2 * most``
    and what is still to be freed.

    Two generations: what is used moves to the younger one; when that is full or old, it becomes the older one.
    """

    def __init__(self, most: int, keep_ms: int) -> None:
        self.young: dict[K, V] = {}
        """For a quick look, always the same object; what is not here is asked of ``find``."""
        self._old: dict[K, V] = {}
        self._dropped: dict[K, V] = {}  # goes bit by bit: to free thousands of values at once takes many ms
        self._most = most
        self._keep_ms = keep_ms
        self._since_ms: float = _NEVER_MS

    def __len__(self) -> int:
        return len(self.young) + len(self._old)

    def find(self, key: K, now_ms: float) -> V | None:
        """The value, which counts as used now; None if there is none."""
        self.turn(now_ms)
        value = self.young.get(key)
        if value is None:
            value = self._old.pop(key, None)
            if value is not None:
                self.young[key] = value
        return value

    def put(self, key: K, value: V, now_ms: float) -> None:
        """``key`` has no value yet."""
        self.turn(now_ms)
        self.young[key] = value
        for _ in range(min(_DROPPED_AT_ONCE, len(self._dropped))):
            self._dropped.popitem()

    def turn(self, now_ms: float) -> None:
        """Drop what is too old. Lookups do so, too; call this from time to time in case there are none."""
        if len(self.young) >= self._most or now_ms - self._since_ms >= self._keep_ms:
            self._dropped, self._old, self._since_ms = self._old, dict(self.young), now_ms
            self.young.clear()

    def clear(self) -> None:
        self.young.clear()
        self._old.clear()
        self._dropped.clear()

    def items(self) -> list[tuple[K, V]]:
        """All of it, the last used first."""
        return [*self.young.items(), *self._old.items()]
