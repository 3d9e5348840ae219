"""The offsets of this broker's groups: committed, fetched, deleted, and removed when nobody has used them for long.

Source: GroupCoordinator.handleCommitOffsets, handleFetchOffsets, handleDeleteOffsets;
GroupMetadataManager.storeOffsets, cleanupGroupMetadata; GroupMetadata.removeExpiredOffsets@3.9.
Tests: tests/kafka_zk/group/test_offset_manager.py.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger, LogLevel

from kafka_zk.group.config import CoordinatorConfig
from kafka_zk.group.group import Group
from kafka_zk.group.live_group import LiveGroup, now_of
from kafka_zk.group.metadata_manager import GroupMetadataManager
from kafka_zk.group.offsets import Offsets
from kafka_zk.group.records import NO_TIMESTAMP, OffsetAndMetadata
from kafka_zk.group.requests import NO_GENERATION, UNKNOWN_MEMBER_ID
from kafka_zk.group.states import GroupState
from kafka_zk.network.slices import ClientWait, in_slices
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.types import TopicPartition
from kafka_zk.system.clock import Clock

_log = Logger()

Codes = dict[TopicPartition, ErrorCode]


class Committer(NamedTuple):
    """Who commits: a member of a generation, or a client that assigns partitions itself."""

    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    generation_id: int = NO_GENERATION


class FetchedOffset(NamedTuple):
    """``offset`` is None if nothing is committed, or if that cannot be told now."""

    error: ErrorCode
    offset: OffsetAndMetadata | None = None


class OffsetManager:
    """See the module's docstring."""

    def __init__(self, config: CoordinatorConfig, clock: Clock, manager: GroupMetadataManager) -> None:
        self._config = config
        self._clock = clock
        self._manager = manager

    async def commit(self, group_id: str, committer: Committer, offsets: Offsets) -> Codes:
        """Store offsets; a code for each. They are stored although the client goes. Raises: ClientGone."""
        error = self._manager.refusal(group_id, may_be_empty=True)
        if error is ErrorCode.NONE and group_id not in self._manager.groups and committer.generation_id >= 0:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is not ErrorCode.NONE:
            return dict.fromkeys(offsets, error)
        live = self._manager.get_or_create(group_id)
        error = live.group.commit_refusal(*committer)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(offsets, error)
        live.group.hear_of(committer.member_id, now_of(self._clock))
        live.wake_in_time()
        codes: Codes = dict.fromkeys(offsets, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        stored = {tp: each for tp, each in offsets.items() if len(each.metadata) <= self._config.metadata_max_bytes}
        if stored:
            codes.update(dict.fromkeys(stored, await self._store(live, stored)))
        return codes

    async def _store(self, live: LiveGroup, offsets: Offsets) -> ErrorCode:
        """Raises: ClientGone; the offsets are written all the same."""
        done: ClientWait[ErrorCode] = ClientWait()

        def finished(error: ErrorCode) -> None:
            if not done.called:
                done.callback(error)

        ensureDeferred(self._write(live, offsets)).addCallback(finished).addErrback(
            lambda failure: _log.failure("a commit failed", failure, level=LogLevel.error)
        )
        return await done

    async def _write(self, live: LiveGroup, offsets: Offsets) -> ErrorCode:
        group = live.group
        group.offsets.begin(offsets)
        written = await self._manager.appends.store_offsets(live.partition, group.group_id, offsets)
        if written.error is ErrorCode.NONE:
            group.offsets.written(offsets, written.record_offset)
        else:
            group.offsets.failed(offsets)
        return written.error

    def fetch(
        self, group_id: str, topic_partitions: Iterable[TopicPartition] | None, *, require_stable: bool
    ) -> tuple[ErrorCode, Mapping[TopicPartition, FetchedOffset]]:
        """What is committed for these, or for all that have something (None).

        require_stable: answer UNSTABLE_OFFSET_COMMIT for an offset that is being written.
        """
        error = self._manager.refusal(group_id, may_be_empty=True)
        if error is not ErrorCode.NONE:
            return error, {}
        live = self._manager.groups.get(group_id)
        if live is None:
            nothing = FetchedOffset(ErrorCode.NONE)
            return ErrorCode.NONE, dict.fromkeys(topic_partitions or (), nothing)
        offsets = live.group.offsets
        found = {}
        for topic_partition in offsets if topic_partitions is None else topic_partitions:
            if require_stable and offsets.is_pending(topic_partition):
                found[topic_partition] = FetchedOffset(ErrorCode.UNSTABLE_OFFSET_COMMIT)
            else:
                found[topic_partition] = FetchedOffset(ErrorCode.NONE, offsets.get(topic_partition))
        return ErrorCode.NONE, found

    def delete(self, group_id: str, topic_partitions: Collection[TopicPartition]) -> tuple[ErrorCode, Codes]:
        """Forget what is committed for these, unless a member reads their topic."""
        error = self._manager.refusal(group_id)
        if error is not ErrorCode.NONE:
            return error, {}
        live = self._manager.groups.get(group_id)
        if live is None:
            return ErrorCode.GROUP_ID_NOT_FOUND, {}
        group = live.group
        if group.state is not GroupState.EMPTY and not group.is_consumer_group:
            return ErrorCode.NON_EMPTY_GROUP, {}
        codes: Codes = {}
        for topic_partition in topic_partitions:
            is_used = group.state is not GroupState.EMPTY and _reads(group, topic_partition.topic)
            codes[topic_partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_used else ErrorCode.NONE
        self.remove(live, [each for each, code in codes.items() if code is ErrorCode.NONE])
        return ErrorCode.NONE, codes

    def partitions_deleted(self, topic_partitions: Collection[TopicPartition]) -> None:
        """The partitions exist no longer, and what was committed for them neither."""
        for live in list(self._manager.groups.values()):
            gone = [each for each in topic_partitions if live.group.offsets.get(each) is not None]
            if gone:
                self.remove(live, gone)

    async def remove_expired(self) -> None:
        """Remove what is older than ``offsets.retention.minutes``, and groups that nothing is left of."""
        await in_slices(self._clock, self._expiry_steps())

    def _expiry_steps(self) -> Iterator[None]:
        wall_ms = self._clock.wall_ms()
        for live in list(self._manager.groups.values()):
            if self._manager.groups.get(live.group.group_id) is live:
                self.remove(live, _expired(live.group, wall_ms, self._config.retention_ms))
            yield

    def remove(self, live: LiveGroup, topic_partitions: Collection[TopicPartition]) -> None:
        """Forget committed offsets; a group without members and offsets is removed with them."""
        group = live.group
        removed = group.offsets.remove(topic_partitions)
        is_gone = group.state is GroupState.EMPTY and not group.offsets
        if is_gone:
            self._manager.forget(live, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        # A group that never had a generation only keeps offsets and has no record of its own.
        with_group = is_gone and group.generation_id > 0
        if removed or with_group:
            ensureDeferred(self._write_tombstones(live, removed, with_group)).addErrback(
                lambda failure: _log.failure("tombstones cannot be written", failure, level=LogLevel.error)
            )

    async def _write_tombstones(
        self, live: LiveGroup, topic_partitions: list[TopicPartition], with_group: bool
    ) -> None:
        group_id = live.group.group_id
        error = await self._manager.appends.remove(
            live.partition, group_id, topic_partitions, with_group=with_group
        )
        if error is not ErrorCode.NONE:
            _log.error(
                "what was removed of group {group} may come back: {error}", group=group_id, error=error.name
            )


def _reads(group: Group, topic: str) -> bool:
    """Whether a member may be subscribed to the topic."""
    return group.subscribed_topics is None or topic in group.subscribed_topics


def _expired(group: Group, wall_ms: int, retention_ms: int) -> list[TopicPartition]:
    """KIP-211: while a group is empty all its offsets age together; a stable one's age unless it reads their topic."""
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
        wall_ms, retention_ms, unused_since_ms=unused_since_ms, subscribed=subscribed
    )
