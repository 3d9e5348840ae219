"""Long responses: reserves memory before each element is created, and lets other requests run.

Handlers await ``ResponseTurns.make`` before each element. Elements that are large, or that can be more numerous than
the names in the request, are kept encoded in an ``EncodedArray``. See decision 0009.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeVar

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import Turns
from kafka_zk.protocol import codec
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.memory import OBJECT_BYTES, Memory
from kafka_zk.protocol.request import RequestContext, RequestHeader

_RESERVE_AT_ONCE_BYTES = 16 * 1024
_JOIN_BELOW_BYTES = 64 * 1024

T = TypeVar("T")


class ResponseTurns(Turns):
    """The turns of a request with a long response."""

    def __init__(self, clock: Timers, context: RequestContext) -> None:
        super().__init__(clock)
        self._memory: Memory = context.memory
        self._objects_bytes = 0  # reserved for objects that are not encoded yet
        self._due_bytes = 0  # counted, but not reserved yet

    async def make(self, size_bytes: int = OBJECT_BYTES) -> None:
        """Reserve memory for the next element. If the turn is over, wait for the next turn.

        Raises: ClientGone; ProtocolError if the elements need more than the whole budget.
        """
        self._due_bytes += size_bytes
        if self._due_bytes >= _RESERVE_AT_ONCE_BYTES:
            due_bytes, self._due_bytes = self._due_bytes, 0
            await self._memory.reserve(due_bytes)
            self._objects_bytes += due_bytes
        if self.is_over:
            await self.next()

    async def each(self, items: Iterable[T], size_bytes: int = OBJECT_BYTES) -> AsyncIterator[T]:
        """Iterate over the items, and reserve ``size_bytes`` for each. Raises: like ``make``."""
        for item in items:
            await self.make(size_bytes)
            yield item

    async def encoded(self, size_bytes: int) -> None:
        """Reserve ``size_bytes`` for an encoded part of the response. Raises: like ``make``."""
        await self._memory.reserve(size_bytes)
        if self.is_over:
            await self.next()

    def keep_objects(self) -> None:
        """Keep the memory of all objects so far until the response is sent."""
        self._objects_bytes = 0

    def drop_objects(self) -> None:
        """Release the objects since ``keep_objects``, because they are encoded now."""
        objects_bytes, self._objects_bytes, self._due_bytes = self._objects_bytes, 0, 0
        if objects_bytes:
            self._memory.give_back(objects_bytes)


class EncodedArray:
    """An array of a response, whose elements are encoded when they are added.

    ``name``: the array's field in the response.
    """

    def __init__(self, turns: ResponseTurns, header: RequestHeader, name: str) -> None:
        self._turns = turns
        self._api_key, self._version = header.api_key, header.api_version
        self._name = name
        self._encoder = codec.response_element_encoder(header.api_key, header.api_version, name)
        self._count = 0
        self._parts: list[Part] = []
        self._small: list[bytes | bytearray] = []  # parts to join
        self._small_bytes = 0

    async def add(self, element: Any) -> None:
        """Encode an element. Raises: like ``ResponseTurns.make``."""
        self._count += 1
        for part in self._encoder.parts(element):
            self._small.append(part)
            self._small_bytes += len(part)
            if self._small_bytes >= _JOIN_BELOW_BYTES:
                await self._join()
            elif self._turns.is_over:
                await self._turns.next()
        self._turns.drop_objects()

    async def _join(self) -> None:
        await self._turns.encoded(self._small_bytes)
        self._parts.append(b"".join(self._small))
        self._small.clear()
        self._small_bytes = 0

    async def body(self, response: Any) -> list[Part]:
        """The body of ``response``, with these elements in place of its empty array."""
        if self._parts:
            await self._join()
        before, after = codec.encode_body_around(response, self._api_key, self._version, self._name, self._count)
        return [before, *self._parts, *self._small, after]
