"""Commits of a group's offsets: periodic, by the user, and of starts chosen by ``auto.offset.reset``.

Commits are written one at a time in the order in which they were decided, each under the ownership of that moment. An
offset therefore decreases only if the user asks for it. A start is the exception: any other commit replaces it, so it
is decided when its turn comes. On the reactor thread.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.waiting import Reactor, run
from kafka_zk.clients.consumer.errors import CommitRefused
from kafka_zk.clients.consumer.group_consumer_config import GroupConsumerConfig
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.registry.offsets import OffsetRefused

_log = Logger()


NOT_THE_OWNER = OffsetRefused("this consumer does not own the partition")

Answers = Mapping[TopicPartition, OffsetRefused | None]
"""For each partition, why its offset was not written, or None if it was."""
Settled = Callable[[], Coroutine[Any, Any, None]]
"""Waits until the outcome of the user's commits is known."""
Write = Callable[[Mapping[TopicPartition, int]], Awaitable[Answers]]

_TAKEN_AWAY = "it was revoked while its records were being processed; they will be delivered again"


class GroupCommits:
    def __init__(
        self, reactor: Reactor, config: GroupConsumerConfig, delivery: GroupDelivery, write: Write
    ) -> None:
        self._reactor = reactor
        self._interval_s = config.auto_commit_interval_ms / 1000 if config.auto_commit_enable else None
        self._delivery = delivery
        self._write = write
        self._turn = DeferredLock()
        self._starts_wait = False  # a commit of starts waits for its turn
        self._timer: Any = None
        if config.commits_starts:
            delivery.on_starts_due = self.commit_starts

    def start(self) -> None:
        if self._interval_s is not None:
            self._timer = self._reactor.callLater(self._interval_s, self._commit_by_clock)

    def stop(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._interval_s = None

    async def settled(self) -> None:
        """Wait until the outcome of each earlier commit is known."""
        await self._turn.acquire()
        self._turn.release()

    async def commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """Write ``offsets``, or (None) the offsets after all delivered records.

        Raises: CommitRefused naming the partitions.
        """
        reasons: dict[TopicPartition, str] = {}
        if offsets is None:
            offsets = self._delivery.handed_out()
            reasons = {tp: _TAKEN_AWAY for stream in self._delivery.streams for tp in stream.handout.lost()}
        self._delivery.committed_by_user(offsets)
        reasons |= await self._commit(offsets)
        if reasons:
            raise CommitRefused(reasons)

    def commit_starts(self) -> None:
        """Commit the starts that ``auto.offset.reset`` chose; otherwise the next owner might choose other ones."""
        if not self._starts_wait:
            self._starts_wait = True
            self._in_background(self._commit_starts())

    async def _commit_starts(self) -> None:
        def due() -> Mapping[TopicPartition, int]:
            self._starts_wait = False  # a start that is found later needs another commit
            return self._delivery.starts_due()

        for tp, reason in (await self._write_in_turn(due)).items():
            if reason is not None:  # a later commit will contain it if the partition is still owned
                _log.info("the start of {tp} was not committed: {reason}", tp=tp, reason=reason)

    async def _commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, str]:
        if not offsets:
            return {}
        answers = await self._write_in_turn(self._delivery.under_the_same_claims(offsets))
        reasons = {tp: answers.get(tp, _TAKEN_AWAY) for tp in offsets}
        return {tp: reason for tp, reason in reasons.items() if reason is not None}

    async def _write_in_turn(self, due: Callable[[], Mapping[TopicPartition, int]]) -> dict[TopicPartition, str | None]:
        await self._turn.acquire()
        try:
            offsets = due()
            answers = await self._write(offsets) if offsets else {}
            self._delivery.committed({tp: offset for tp, offset in offsets.items() if answers[tp] is None})
        finally:
            self._turn.release()
        return {tp: None if answer is None else answer.reason for tp, answer in answers.items()}

    def _commit_by_clock(self) -> None:
        self._in_background(self._auto_commit())

    async def _auto_commit(self) -> None:
        try:
            for tp, reason in (await self._commit(self._delivery.processed())).items():
                _log.info("the offset of {tp} was not committed: {reason}", tp=tp, reason=reason)
        finally:
            if self._interval_s is not None:
                self._timer = self._reactor.callLater(self._interval_s, self._commit_by_clock)

    @staticmethod
    def _in_background(commit: Coroutine[Any, Any, None]) -> None:
        run(commit).addErrback(lambda failure: _log.failure("an offset commit failed", failure=failure))
