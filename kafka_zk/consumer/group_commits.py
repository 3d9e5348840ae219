"""When offsets go to ZooKeeper: by the clock, when the user says so, and when ``auto.offset.reset`` chose a start.

One commit is under way at a time, so that an older one never arrives after a newer one. On the reactor's thread.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from kafka_zk.client.waiting import Reactor, run
from kafka_zk.consumer.errors import CommitRefused
from kafka_zk.consumer.group_config import ZookeeperConsumerConfig
from kafka_zk.consumer.group_delivery import GroupDelivery
from storage.types import TopicPartition

_log = Logger()

Write = Callable[[Mapping[TopicPartition, int]], Awaitable[Mapping[TopicPartition, Any]]]
"""The driver's commit: per partition None, or an object whose ``reason`` says why it was refused."""


class GroupCommits:
    """The commits of one consumer."""

    def __init__(
        self, reactor: Reactor, config: ZookeeperConsumerConfig, delivery: GroupDelivery, write: Write
    ) -> None:
        self._reactor = reactor
        self._interval_s = config.auto_commit_interval_ms / 1000 if config.auto_commit_enable else None
        self._delivery = delivery
        self._write = write
        self._turn = DeferredLock()
        self._starts: dict[TopicPartition, int] = {}  # chosen by auto.offset.reset, not written yet
        self._committing_starts = False
        self._timer: Any = None

    def start(self) -> None:
        """Commit by the clock from now on, if the configuration says so."""
        if self._interval_s is not None:
            self._timer = self._reactor.callLater(self._interval_s, self._commit_by_clock)

    def stop(self) -> None:
        """Commit by the clock no more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._interval_s = None

    async def commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """Write ``offsets``, or (None) those behind everything that was handed out.

        Raises: CommitRefused naming the partitions that were not written.
        """
        reasons: dict[TopicPartition, str] = {}
        if offsets is None:
            offsets = self._delivery.handed_out()
            for tp in {tp for stream in self._delivery.streams for tp in stream.handout.lost()}:
                reasons[tp] = "it was taken away while its records were being processed; they will be delivered again"
        reasons |= await self._commit(offsets, by_user=True)
        if reasons:
            raise CommitRefused(reasons)

    def start_found(self, tp: TopicPartition, offset: int) -> None:
        """``auto.offset.reset`` chose a start: commit it at once, or the next owner would choose another one."""
        self._starts[tp] = offset
        self.commit_starts()

    def commit_starts(self) -> None:
        """Write the starts that were not written yet."""
        if not self._committing_starts:
            self._committing_starts = True
            self._in_background(self._commit_starts())

    async def _commit_starts(self) -> None:
        refused: dict[TopicPartition, int] = {}
        try:
            while self._starts:  # more may be found while these are written
                owned = set(self._delivery.assignment)
                starts, self._starts = {tp: offset for tp, offset in self._starts.items() if tp in owned}, {}
                for tp, reason in (await self._commit(starts)).items():
                    _log.info("the start of {tp} was not committed: {reason}", tp=tp, reason=reason)
                    refused[tp] = starts[tp]
        finally:
            self._committing_starts = False
            self._starts = refused | self._starts  # again at the next occasion, if it is still ours

    async def _commit(
        self, offsets: Mapping[TopicPartition, int], *, by_user: bool = False
    ) -> dict[TopicPartition, str]:
        if not offsets:
            return {}
        await self._turn.acquire()
        try:
            answers = await self._write(offsets)
        finally:
            self._turn.release()
        written = {tp: offset for tp, offset in offsets.items() if answers[tp] is None}
        self._delivery.committed(written, by_user=by_user)
        return {tp: answer.reason for tp, answer in answers.items() if answer is not None}

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
        run(commit).addErrback(lambda failure: _log.failure("a commit failed", failure=failure))
