"""Producer ids for idempotent producers, taken from ZooKeeper a block at a time (KIP-98).

Source: ZooKeeperProducerIdManager, ProducerIdManager.scala@3.9.
"""

from collections.abc import Awaitable, Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kafka_zk.registry.client.errors import InvalidZnode, TooManyProducerIds

_log = Logger()


class ProducerIdManager:
    """Gives out every id once; ``allocate_block`` takes the next block of ids for this broker."""

    def __init__(self, allocate_block: Callable[[], Awaitable[range]]) -> None:
        self._allocate_block = allocate_block
        self._block = range(0)
        self._refilling = False
        self._fault = ""  # that was told
        self._waiting: list[Deferred[None]] = []  # for the block that is being allocated

    async def next_id(self) -> int:
        """Raises RegistryError when a new block is needed and ZooKeeper does not answer."""
        while (producer_id := self.at_hand()) is None:
            await self._refill()
        return producer_id

    def at_hand(self) -> int | None:
        """As ``next_id``, or None if that would have to wait for a new block."""
        if not self._block:
            return None
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    async def _refill(self) -> None:
        """One allocation for all waiting requests, which are woken one by one; it may not be enough for all."""
        if self._refilling:
            waiting: Deferred[None] = Deferred()
            self._waiting.append(waiting)
            await waiting
            return
        self._refilling = True
        error: Exception | None = None
        try:
            self._block = await self._allocate_block()
            self._fault = ""
        except Exception as failed:
            error = failed
            self._tell(failed)
        self._refilling = False
        woken, self._waiting = self._waiting, []
        for waiting in woken:
            waiting.callback(None) if error is None else waiting.errback(error)
        if error is not None:
            raise error

    def _tell(self, failed: Exception) -> None:
        """Producers wait and ask again: log once what they wait for, if an operator has to mend it."""
        if isinstance(failed, InvalidZnode | TooManyProducerIds) and str(failed) != self._fault:
            self._fault = str(failed)
            _log.error("no producer ids can be given out: {error}", error=failed)
