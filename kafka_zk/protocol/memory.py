"""What a request may ask of the broker's memory; the pool behind it is ``network.memory_pool``."""

from collections.abc import Awaitable
from typing import Protocol

OBJECT_BYTES = 512
"""What a struct of a message takes in Python, measured, and what is made of it to be answered."""

VALUE_BYTES = 64


class Memory(Protocol):
    """The account of one connection: what its frames, and the work on its request, hold of the broker's budget."""

    def take(self, size_bytes: int) -> None:
        """Count memory that is in use already, whether there is room for it or not."""

    def try_take(self, size_bytes: int, whole_bytes: int = 0) -> bool:
        """Count memory that will be used, if there is room for it; ``whole_bytes`` is what it may become with time."""

    def give_back(self, size_bytes: int) -> None:
        """Memory that was taken is free again. What is not given back goes with the answer to the request."""

    def release(self) -> None:
        """The request only waits from now on: its frame is let go of, and what it took is free."""

    def reserve(self, size_bytes: int) -> Awaitable[None]:
        """Wait until there is room, and take it.

        Raises: ClientGone if the connection ends meanwhile; ProtocolError if one request needs more than all may have.
        """


class _Unlimited:
    """Nobody counts."""

    def take(self, size_bytes: int) -> None:
        """Nothing."""

    def try_take(self, size_bytes: int, whole_bytes: int = 0) -> bool:
        return True

    def give_back(self, size_bytes: int) -> None:
        """Nothing."""

    def release(self) -> None:
        """Nothing."""

    async def reserve(self, size_bytes: int) -> None:
        """At once."""


UNLIMITED: Memory = _Unlimited()
"""For clients, who take what they asked for, and for tests."""
