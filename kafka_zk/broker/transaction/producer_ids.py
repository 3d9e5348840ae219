"""Producer ids from blocks allocated in ZooKeeper (KIP-98).

Source: ZooKeeperProducerIdManager, ProducerIdManager.scala@3.9.
"""

from collections.abc import Awaitable, Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kafka_zk.registry.client.errors import InvalidZnode, TooManyProducerIds

_log = Logger()


class ProducerIdManager:
    """Returns each id once. ``allocate_block``: reserves the next block."""

    def __init__(self, allocate_block: Callable[[], Awaitable[range]]) -> None:
        self._allocate_block = allocate_block
        self._block = range(0)
        self._refilling = False
        self._fault = ""  # last logged error
        self._waiting: list[Deferred[None]] = []  # wait for the allocation in progress

    async def next_id(self) -> int:
        """The next id. Raises: RegistryError if a new block is needed and ZooKeeper is unavailable."""
        while (producer_id := self.next_id_in_block()) is None:
            await self._refill()
        return producer_id

    def next_id_in_block(self) -> int | None:
        """The next id; None if a new block is needed first."""
        if not self._block:
            return None
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    async def _refill(self) -> None:
        """Allocate a block. Waiting requests resume one by one, because the block may be too small for all."""
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
            self._report(failed)
        self._refilling = False
        woken, self._waiting = self._waiting, []
        for waiting in woken:
            waiting.callback(None) if error is None else waiting.errback(error)
        if error is not None:
            raise error

    def _report(self, failed: Exception) -> None:
        """Log an error for the operator once, because producers retry."""
        if isinstance(failed, InvalidZnode | TooManyProducerIds) and str(failed) != self._fault:
            self._fault = str(failed)
            _log.error("no producer ids can be assigned: {error}", error=failed)
