"""Commits, fetches, deletes and expires the offsets of this broker's groups.

Source: GroupCoordinator.handleCommitOffsets, handleFetchOffsets, handleDeleteOffsets;
GroupMetadataManager.storeOffsets, cleanupGroupMetadata; GroupMetadata.removeExpiredOffsets@3.9.
"""

from collections.abc import Awaitable, Collection, Coroutine, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from kafka_zk.base.clock import Clock
from kafka_zk.base.turns import ClientWait, Turns, in_slices
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.appends import OffsetsWritten
from kafka_zk.broker.group.config import CoordinatorConfig
from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.live_group import LiveGroup, now_of
from kafka_zk.broker.group.metadata_manager import GroupMetadataManager
from kafka_zk.broker.group.offsets import GroupOffsets, Offsets
from kafka_zk.broker.group.offsets_batch import OffsetsBatch
from kafka_zk.broker.group.records import NO_TIMESTAMP
from kafka_zk.broker.group.requests import NO_GENERATION, UNKNOWN_MEMBER_ID
from kafka_zk.broker.group.states import GroupState
from kafka_zk.protocol.errors import ErrorCode

_log = Logger()

_NONE = ErrorCode.NONE
_MANY = 100  # number of offsets that are handled in one turn

T = TypeVar("T")
Codes = dict[TopicPartition, ErrorCode]


class Committer(NamedTuple):
    """A committing client: a member of a generation, or a client that assigns partitions itself."""

    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    generation_id: int = NO_GENERATION


class OffsetManager:
    def __init__(self, config: CoordinatorConfig, clock: Clock, manager: GroupMetadataManager) -> None:
        self._config = config
        self._clock = clock
        self._manager = manager

    async def commit(self, group_id: str, committer: Committer, offsets: Offsets) -> Codes:
        """Returns a code for each partition. Continues even if the client disconnects. Raises: ClientGone."""
        error = self._refusal_of(group_id, committer, offsets)
        if error is not _NONE:
            return dict.fromkeys(offsets, error)
        if len(offsets) > _MANY:
            return await to_completion(group_id, self._store_in_turns(group_id, committer, offsets))
        batch = self._new_batch(group_id)
        batch.add(offsets.items())
        if not batch.offsets:
            return dict.fromkeys(offsets, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        return codes_of(offsets, batch, await self._store(group_id, committer, batch))

    async def commit_batch(self, group_id: str, committer: Committer, batch: OffsetsBatch) -> ErrorCode:
        """Like ``commit``, for an encoded batch of at most 100 offsets. Returns one code for all of them."""
        error = self._refusal_of(group_id, committer, batch.offsets)
        return await self._store(group_id, committer, batch) if error is _NONE else error

    async def _store(self, group_id: str, committer: Committer, batch: OffsetsBatch) -> ErrorCode:
        live = self._live_group(group_id, committer)
        written = self._manager.appends.store_offsets(live.partition, batch)
        if not isinstance(written, OffsetsWritten):
            turns = Turns(self._clock, ignores_disconnect=True)
            return await to_completion(group_id, self._written_later(turns, live, batch, written))
        if written.error is _NONE:
            live.group.offsets.stored(batch.offsets, written.record_offset, batch.metadata_bytes)
            self._manager.count_offsets(live)
        else:
            live.carry_out([])  # drops a group created for this commit
        return written.error

    def _refusal_of(self, group_id: str, committer: Committer, offsets: Offsets) -> ErrorCode:
        """Like ``_refusal``, but also an error if there is no memory for the offsets."""
        error = self._refusal(group_id, committer)
        if error is _NONE and not self._manager.has_room_for(group_id, offsets):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return error

    def _refusal(self, group_id: str, committer: Committer) -> ErrorCode:
        live = self._manager.groups.get(group_id)
        if live is not None:
            return live.group.commit_refusal(*committer)
        error = self._manager.refusal(group_id, may_be_empty=True)
        if error is not ErrorCode.NONE:
            return error
        return ErrorCode.NONE if committer.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION

    def _live_group(self, group_id: str, committer: Committer) -> LiveGroup:
        live = self._manager.get_or_create(group_id)
        if committer.member_id != UNKNOWN_MEMBER_ID:
            live.group.extend_session(committer.member_id, now_of(self._clock))
            live.wake_in_time()
        return live

    async def _store_in_turns(self, group_id: str, committer: Committer, offsets: Offsets) -> Codes:
        turns = Turns(self._clock, ignores_disconnect=True)
        batch = self._new_batch(group_id)
        for part in _parts(offsets.items()):
            if turns.is_over:
                await turns.next()
            batch.add(part)
        error = self._refusal(group_id, committer)  # the group may have changed
        if error is not ErrorCode.NONE:
            return dict.fromkeys(offsets, error)
        if batch.offsets:
            live = self._live_group(group_id, committer)
            written = self._manager.appends.store_offsets(live.partition, batch)
            error = await self._written_later(turns, live, batch, written)
        return codes_of(offsets, batch, error)

    def _new_batch(self, group_id: str) -> OffsetsBatch:
        return OffsetsBatch(group_id, self._clock.wall_ms(), self._config.metadata_max_bytes)

    async def _written_later(
        self, turns: Turns, live: LiveGroup, batch: OffsetsBatch, written: OffsetsWritten | Awaitable[OffsetsWritten]
    ) -> ErrorCode:
        """Wait for an append. All its offsets are unstable until they are in the log."""
        offsets = live.group.offsets
        offsets.begin(batch.offsets)
        if not isinstance(written, OffsetsWritten):
            written = await written
        for part in map(dict, _parts(batch.offsets.items())):
            if turns.is_over:
                await turns.next()
            if written.error is ErrorCode.NONE:
                offsets.written(part, written.record_offset)
            else:
                offsets.failed(part)
        live.carry_out([])  # counts the offsets, or drops a group created for them
        return written.error

    def find(self, group_id: str) -> tuple[ErrorCode, GroupOffsets]:
        """The group's committed offsets; empty if the group does not exist."""
        error = self._manager.refusal(group_id, may_be_empty=True)
        live = self._manager.groups.get(group_id)
        return error, GroupOffsets() if live is None or error is not ErrorCode.NONE else live.group.offsets

    def delete(self, group_id: str, tps: Collection[TopicPartition]) -> tuple[ErrorCode, Codes]:
        """Delete committed offsets, except for topics to which members subscribe."""
        error = self._manager.refusal(group_id)
        if error is not ErrorCode.NONE:
            return error, {}
        live = self._manager.groups.get(group_id)
        if live is None or live.group.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND, {}
        group = live.group
        if group.state is not GroupState.EMPTY and not group.is_consumer_group:
            return ErrorCode.NON_EMPTY_GROUP, {}
        codes: Codes = {}
        for tp in tps:
            is_used = group.state is not GroupState.EMPTY and _reads(group, tp.topic)
            codes[tp] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_used else ErrorCode.NONE
        self.remove(live, [each for each, code in codes.items() if code is ErrorCode.NONE])
        return ErrorCode.NONE, codes

    async def partitions_deleted(self, tps: Collection[TopicPartition]) -> None:
        gone = frozenset(tps)
        await in_slices(self._clock, self._deletion_steps(gone))

    def _deletion_steps(self, gone: frozenset[TopicPartition]) -> Iterator[None]:
        for live in list(self._manager.groups.values()):
            found = live.group.offsets.among(gone)
            for part in _parts(found):
                if self._manager.groups.get(live.group.group_id) is live:
                    self.remove(live, part)
                yield
            yield

    async def remove_expired(self) -> None:
        """Remove offsets older than ``offsets.retention.minutes``, and groups that have neither offsets nor members."""
        await in_slices(self._clock, self._expiry_steps())

    def _expiry_steps(self) -> Iterator[None]:
        wall_ms = self._clock.wall_ms()
        for live in list(self._manager.groups.values()):
            for part in _parts(live.group.offsets.tps) if live.group.offsets else [[]]:
                if self._manager.groups.get(live.group.group_id) is live:
                    self.remove(live, _expired(live.group, part, wall_ms, self._config.retention_ms))
                yield

    async def remove_group(self, live: LiveGroup) -> None:
        """Remove an empty group and its offsets. It becomes Dead first, so that no tombstone deletes a new commit."""
        live.close(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        await in_slices(self._clock, self._removal_steps(live))

    def _removal_steps(self, live: LiveGroup) -> Iterator[None]:
        group = live.group
        for part in _parts(group.offsets.tps):
            if self._manager.groups.get(group.group_id) is not live:
                return  # the group was unloaded meanwhile
            self._bury(live, group.offsets.remove(part), with_group=False)
            yield
        if self._manager.groups.get(group.group_id) is live:
            self._bury(live, [], with_group=group.generation_id > 0)
            self._manager.forget(live, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def remove(self, live: LiveGroup, tps: Collection[TopicPartition]) -> None:
        """Remove committed offsets, and the group if it has neither members nor offsets left."""
        group = live.group
        removed = group.offsets.remove(tps)
        is_gone = group.state is GroupState.EMPTY and not group.offsets
        if is_gone:
            self._manager.forget(live, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._manager.count_offsets(live)
        # Without a generation, there is no group record.
        self._bury(live, removed, with_group=is_gone and group.generation_id > 0)

    def _bury(self, live: LiveGroup, tps: list[TopicPartition], *, with_group: bool) -> None:
        if tps or with_group:
            ensureDeferred(self._write_tombstones(live, tps, with_group)).addErrback(
                lambda failure: _log.failure(
                    "the tombstones of group {group} cannot be written",
                    failure,
                    level=LogLevel.error,
                    group=live.group.group_id,
                )
            )

    async def _write_tombstones(
        self, live: LiveGroup, tps: list[TopicPartition], with_group: bool
    ) -> None:
        group_id = live.group.group_id
        error = await self._manager.appends.remove(
            live.partition, group_id, tps, with_group=with_group
        )
        if error is not ErrorCode.NONE:
            _log.error(
                "removed offsets of group {group} may reappear: {error}", group=group_id, error=error.name
            )


async def to_completion(group_id: str, storing: Coroutine[Any, Any, T]) -> T:
    """Await a commit, which continues even if the client disconnects. Raises: ClientGone."""
    done: ClientWait[T] = ClientWait()

    def finished(result: T | Failure) -> None:
        if not done.called:
            done.callback(result)  # a Failure raises in the awaiting coroutine
        elif isinstance(result, Failure):
            _log.failure(
                "an offset commit of group {group} failed after its client had disconnected", result,
                level=LogLevel.error, group=group_id,
            )  # fmt: skip

    ensureDeferred(storing).addBoth(finished)
    return await done


def codes_of(offsets: Offsets, batch: OffsetsBatch, error: ErrorCode) -> Codes:
    """Codes by partition: ``error`` for offsets in the batch, OFFSET_METADATA_TOO_LARGE for the others."""
    if len(batch.offsets) == len(offsets):
        return dict.fromkeys(offsets, error)
    codes: Codes = dict.fromkeys(offsets, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    codes.update(dict.fromkeys(batch.offsets, error))
    return codes


def _parts(items: Iterable[T]) -> Iterator[list[T]]:
    remaining = iter(items)
    while part := list(islice(remaining, _MANY)):
        yield part


def _reads(group: Group, topic: str) -> bool:
    """True if members may subscribe to the topic."""
    return group.subscribed_topics is None or topic in group.subscribed_topics


def _expired(group: Group, tps: list[TopicPartition], wall_ms: int, retention_ms: int) -> list[TopicPartition]:
    """Expired offsets (KIP-211). The offsets of an empty group expire together; those of a stable group expire only in
    unsubscribed topics."""
    unused_since_ms: int | None = None
    subscribed: Collection[str] = ()
    if group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            unused_since_ms = None if group.state_timestamp_ms == NO_TIMESTAMP else group.state_timestamp_ms
        elif group.state is GroupState.STABLE and group.is_consumer_group and group.subscribed_topics is not None:
            subscribed = group.subscribed_topics
        else:
            return []
    return group.offsets.expired(
        tps, wall_ms, retention_ms, unused_since_ms=unused_since_ms, subscribed=subscribed
    )
