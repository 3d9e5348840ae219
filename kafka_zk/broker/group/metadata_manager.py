"""This broker's groups, in the partitions of ``__consumer_offsets`` that it leads.

Source: GroupMetadataManager.scala, GroupCoordinator.onElection, onResignation@3.9.
"""

from collections.abc import Iterator

from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from kafka_zk.base.clock import Clock
from kafka_zk.base.turns import in_slices
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.held_memory import HeldMemory
from kafka_zk.broker.coordinator.keys import is_storable, partition_for
from kafka_zk.broker.coordinator.partition_count import PartitionCount
from kafka_zk.broker.coordinator.replies import Replies
from kafka_zk.broker.group.appends import Appends
from kafka_zk.broker.group.config import CoordinatorConfig
from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.live_group import LiveGroup, Report, now_of
from kafka_zk.broker.group.loading import LoadedPartition
from kafka_zk.broker.group.memory import GROUP_BYTES, growth_bytes, held_bytes, offsets_bytes
from kafka_zk.broker.group.offsets import OFFSET_BYTES, Offsets
from kafka_zk.broker.group.open_transaction_groups import OpenTransactionGroups
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.group.requests import Effect, StoreGroup
from kafka_zk.broker.group.states import GroupState
from kafka_zk.broker.group.transactional_offsets import Marker
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.replica.delayed_produce import APPEND_ERRORS
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.partition import Partition, Role
from kafka_zk.protocol.errors import ErrorCode

_log = Logger()

_MAX_KEPT = 1000


class GroupMetadataManager:
    """The groups by id, from partitions that this broker leads and has loaded."""

    def __init__(
        self, config: CoordinatorConfig, clock: Clock, replicas: ReplicaManager, metadata: MetadataCache, report: Report
    ) -> None:
        self.groups: dict[str, LiveGroup] = {}
        self._kept: dict[str, None] = {}  # in the order of their creation
        self.replies = Replies()
        self.memory = HeldMemory("the members of all groups", config.members_max_bytes)
        self.offsets_memory = HeldMemory("the committed offsets of all groups", config.offsets_max_bytes)
        self.open_transactions = OpenTransactionGroups()
        self.appends = Appends(replicas, clock, config.commit_timeout_ms)
        self.partition_count = PartitionCount(metadata, OFFSETS_TOPIC, config.partition_count)
        self._config = config
        self._clock = clock
        self._replicas = replicas
        self._report = report
        self._is_active = True
        self._owned: set[int] = set()
        self._loading: dict[int, LoadedPartition] = {}
        self._loads = DeferredLock()

    # Groups.

    def partition_for(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that contains the group."""
        return partition_for(group_id, self.partition_count())

    def refusal(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode:
        """Why this broker cannot serve the group now, or NONE; ``may_be_empty``: an empty id is allowed."""
        if not group_id and not may_be_empty:
            return ErrorCode.INVALID_GROUP_ID
        if group_id in self.groups:
            return ErrorCode.NONE
        if not is_storable(group_id):
            return ErrorCode.INVALID_GROUP_ID
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(group_id)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if partition in self._owned else ErrorCode.NOT_COORDINATOR

    @property
    def is_active(self) -> bool:
        """False while the broker shuts down."""
        return self._is_active

    @property
    def is_loading(self) -> bool:
        """True while groups may be missing, because a partition is being loaded."""
        return bool(self._loading)

    def get_or_create(self, group_id: str) -> LiveGroup:
        """The group, which is created if needed. ``refusal`` must be NONE."""
        live = self.groups.get(group_id)
        if live is None:
            group = Group(group_id, self._config.group, now_of(self._clock))
            live = self.groups[group_id] = self._live(group, self.partition_for(group_id))
        return live

    def get_or_keep(self, group_id: str) -> LiveGroup:
        """Like ``get_or_create``, but a new group stays until the next cleanup, even without offsets and members,
        because Kafka lists it until then. At most the newest 1,000 stay, because a client may send any number of ids.
        """
        if group_id not in self.groups:
            self._kept[group_id] = None
            if len(self._kept) > _MAX_KEPT:
                oldest = next(iter(self._kept))
                del self._kept[oldest]
                self.groups[oldest].carry_out([])
        return self.get_or_create(group_id)

    def forget(self, live: LiveGroup, error: ErrorCode) -> None:
        """Drop a group; its waiting requests get ``error``."""
        self._kept.pop(live.group.group_id, None)
        del self.groups[live.group.group_id]
        live.close(error)

    # Partitions.

    def role_changed(self, partition: Partition) -> None:
        """Load or unload the partition's groups when this broker gains or loses its leadership."""
        topic, number = partition.tp
        if topic != OFFSETS_TOPIC or not self._is_active:
            return
        if partition.role is not Role.LEADER:
            self._unload(number)
        elif number not in self._owned and number not in self._loading:
            loaded = self._loading[number] = LoadedPartition()
            ensureDeferred(self._load(number, loaded)).addErrback(_log_bug, f"loading {OFFSETS_TOPIC}-{number}")

    def close(self) -> None:
        """Close all groups; all waiting requests get a response."""
        self._is_active = False
        self._owned.clear()
        self._loading.clear()
        for live in list(self.groups.values()):
            self.forget(live, ErrorCode.NOT_COORDINATOR)

    async def _load(self, partition: int, loaded: LoadedPartition) -> None:
        """Load one partition at a time, in short steps."""
        async with self._loads:
            try:
                await in_slices(self._clock, self._load_steps(partition, loaded))
            except APPEND_ERRORS as error:
                _log.error("{topic}-{p} cannot be read: {error}", topic=OFFSETS_TOPIC, p=partition, error=error)
        if self._loading.get(partition) is not loaded:
            return  # the partition was unloaded meanwhile
        del self._loading[partition]
        self._owned.add(partition)
        loaded.log_result(TopicPartition(OFFSETS_TOPIC, partition), f"{loaded.group_count} groups")

    def _load_steps(self, partition: int, loaded: LoadedPartition) -> Iterator[None]:
        """Load groups one by one; each group is available once it is loaded."""
        tp = TopicPartition(OFFSETS_TOPIC, partition)
        for _ in loaded.load_steps(self._replicas, tp, self._config.load_buffer_bytes):
            if self._loading.get(partition) is not loaded:
                return
            yield
        for group_id in loaded.group_ids:
            live, effects = self._loaded_group(partition, group_id, loaded)
            self.groups[group_id] = live
            live.carry_out(effects)
            yield
            if self._loading.get(partition) is not loaded:
                return

    def _loaded_group(
        self, partition: int, group_id: str, loaded: LoadedPartition
    ) -> tuple[LiveGroup, list[Effect]]:
        """Create a group; without a stored value, it has offsets but no members."""
        now = now_of(self._clock)
        value = loaded.groups.pop(group_id, None)
        if value is None:
            group, effects = Group(group_id, self._config.group, now), list[Effect]()
        else:
            group, effects = Group.loaded(group_id, self._config.group, value, now)
        group.offsets.load(loaded.offsets.pop(group_id, {}))
        if (open_transactions := loaded.open_transactions.pop(group_id, None)) is not None:
            group.offsets.load_open(open_transactions)
            for producer_id, marker in loaded.ended.items():
                group.offsets.end_transaction(producer_id, marker)
            self.open_transactions.add(partition, group_id, group.offsets.producer_ids)
        return self._live(group, partition), effects

    def transaction_ended(self, partition: int, producer_id: int, marker: Marker) -> None:
        """Handle a marker in the partition's log: the transaction's offsets take effect or are dropped.

        Groups that are being loaded process the marker when they are loaded. A producer's first marker is enough,
        because the producer cannot commit to these groups before they are loaded.
        """
        loaded = self._loading.get(partition)
        if loaded is not None:
            loaded.ended.setdefault(producer_id, marker)
        for group_id in self.open_transactions.of(partition, producer_id):
            live = self.groups.get(group_id)
            if live is not None:  # otherwise the group was deleted
                live.group.offsets.end_transaction(producer_id, marker)
                live.carry_out([])
            self.transaction_changed(partition, group_id, producer_id)

    def transaction_changed(self, partition: int, group_id: str, producer_id: int) -> None:
        """Drop the group from the index if the producer has no open transaction in it."""
        live = self.groups.get(group_id)
        if live is None or not live.group.offsets.has_transaction_of(producer_id):
            self.open_transactions.remove(partition, group_id, producer_id)

    def _unload(self, partition: int) -> None:
        self._loading.pop(partition, None)
        self._owned.discard(partition)
        self.open_transactions.unload(partition)
        given_away = [live for live in self.groups.values() if live.partition == partition]
        for live in given_away:
            self._kept.pop(live.group.group_id, None)
            del self.groups[live.group.group_id]
        closing = in_slices(self._clock, _closing_steps(given_away))
        ensureDeferred(closing).addErrback(_log_bug, f"unloading {OFFSETS_TOPIC}-{partition}")

    # Storage.

    def _live(self, group: Group, partition: int) -> LiveGroup:
        return LiveGroup(group, partition, self._clock, self.replies, self._store, self._report, self._changed)

    def _changed(self, live: LiveGroup) -> None:
        group = live.group
        size_bytes = held_bytes(group)
        self.memory.changed(size_bytes - live.counted_bytes)
        live.counted_bytes = size_bytes
        self.count_offsets(live)
        is_known = self.groups.get(group.group_id) is live
        if is_known and _is_blank(group) and group.group_id not in self._kept:
            self.forget(live, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def has_room_for(self, group_id: str, offsets: Offsets) -> bool:
        """True if there is memory for these offsets, or if committing them needs none."""
        memory, live = self.offsets_memory, self.groups.get(group_id)
        most_bytes = GROUP_BYTES + len(offsets) * (OFFSET_BYTES + self._config.metadata_max_bytes)
        if memory.used_bytes + most_bytes <= memory.limit_bytes:  # the common case: they fit even if all are new
            return True
        return memory.has_room(growth_bytes(None if live is None else live.group, offsets))

    def count_offsets(self, live: LiveGroup) -> None:
        """Update the counted memory."""
        size_bytes = offsets_bytes(live.group)
        if size_bytes != live.counted_offsets_bytes:
            self.offsets_memory.changed(size_bytes - live.counted_offsets_bytes)
            live.counted_offsets_bytes = size_bytes

    def _store(self, live: LiveGroup, effect: StoreGroup) -> None:
        work = f"storing group {live.group.group_id}"
        ensureDeferred(self._store_and_continue(live, effect)).addErrback(_log_bug, work)

    async def _store_and_continue(self, live: LiveGroup, effect: StoreGroup) -> None:
        group = live.group
        error = await self.appends.store_group(live.partition, group.group_id, effect.value)
        if error is not ErrorCode.NONE:
            _log.error(
                "group {group} cannot be stored, generation {generation}: {error}",
                group=group.group_id, generation=effect.value.generation_id, error=error.name,
            )  # fmt: skip
        live.carry_out(group.stored(effect.then, error, now_of(self._clock)))


def _closing_steps(given_away: list[LiveGroup]) -> Iterator[None]:
    for live in given_away:
        live.close(ErrorCode.NOT_COORDINATOR)
        yield


def _is_blank(group: Group) -> bool:
    members = group.members
    is_new = group.state is GroupState.EMPTY and not group.generation_id
    return is_new and not (members.pending or len(members) or group.offsets)


def _log_bug(failure: Failure, work: str) -> None:
    _log.failure("{work} failed", failure, level=LogLevel.error, work=work)
