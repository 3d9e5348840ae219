"""A request's interface to the broker's memory, implemented by ``network.memory_pool``."""

from collections.abc import Awaitable
from typing import Protocol

OBJECT_BYTES = 512
"""Measured memory of a struct's object and of its part of the response."""

VALUE_BYTES = 64


class Memory(Protocol):
    """The memory of one connection's frames and request."""

    def take(self, size_bytes: int) -> None:
        """The memory is already in use: count it, even without room."""

    def try_take(self, size_bytes: int, whole_bytes: int = 0) -> bool:
        """Count memory that will be used, if there is room. ``whole_bytes``: its possible final size."""

    def give_back(self, size_bytes: int) -> None:
        """Return this memory now; the rest is returned with the response."""

    def release(self) -> None:
        """The request only waits from now on: release its frame and its memory."""

    def reserve(self, size_bytes: int) -> Awaitable[None]:
        """Wait until there is room, and take it.

        Raises: ClientGone if the connection ends first; ProtocolError if one request needs more than the budget.
        """


class _Unlimited:
    """Counts nothing and never waits."""

    def take(self, size_bytes: int) -> None:
        """Does nothing."""

    def try_take(self, size_bytes: int, whole_bytes: int = 0) -> bool:
        return True

    def give_back(self, size_bytes: int) -> None:
        """Does nothing."""

    def release(self) -> None:
        """Does nothing."""

    async def reserve(self, size_bytes: int) -> None:
        """Returns immediately."""


UNLIMITED: Memory = _Unlimited()
"""For clients, which receive only what they request, and for tests."""
