"""The consumer's view of its user."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener

_log = Logger()


class UserThread(Protocol):
    def call(self, method: Callable[..., Awaitable[None] | None], *arguments: Any) -> Awaitable[None] | None:
        """Call a method of the user in the user's thread."""

    def call_reactor(self, function: Callable[[], None]) -> None:
        """Call ``function`` on the reactor thread. The user's thread may call this method."""


class ReactorUser:
    def call(self, method: Callable[..., Awaitable[None] | None], *arguments: Any) -> Awaitable[None] | None:
        return method(*arguments)

    def call_reactor(self, function: Callable[[], None]) -> None:
        function()


class UserSide:
    """The listener of one consumer, if any. Its exceptions are logged."""

    def __init__(self, consumer_id: str, listener: RebalanceListener | None, thread: UserThread) -> None:
        self.call_reactor = thread.call_reactor
        self.has_listener = listener is not None
        self._consumer_id = consumer_id
        self._listener = listener
        self._thread = thread

    async def before_starting(self, streams: Mapping[TopicPartition, int]) -> None:
        """``streams``: the stream of each assigned partition. Returns when the listener is done."""
        if self._listener is not None:
            await self._told(self._listener.before_starting_fetchers, self._consumer_id, streams)

    async def before_releasing(self, partitions: Collection[TopicPartition]) -> None:
        if self._listener is not None:
            await self._told(self._listener.before_releasing_partitions, sorted(partitions))

    async def _told(self, method: Callable[..., Awaitable[None] | None], *arguments: Any) -> None:
        try:
            answer = self._thread.call(method, *arguments)
            if answer is not None:
                await answer
        except Exception:
            _log.failure("the rebalance listener failed")
