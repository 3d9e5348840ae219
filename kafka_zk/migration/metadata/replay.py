"""Replays a metadata log: a snapshot and the batches after it become an image. Pure.

A transaction's records take effect when it is committed, so a transaction that the log aborts or does not end is left
out. Records without a counterpart in ZooKeeper are skipped.

Source: MetadataDelta.java, PartitionRegistration.merge, MetadataBatchLoader.java@3.9.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka_zk.migration.facts import MigrationState
from kafka_zk.migration.metadata.image import BROKER, TOPIC, Entity, MetadataImage, PartitionState, Token
from kafka_zk.protocol import uuids
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.metadata_record import RecordType, decode, record_type
from kafka_zk.security.acl import Acl, Operation, Pattern, PatternType, Permission, ResourceType
from kafka_zk.security.scram import MECHANISM_NUMBERS, ScramCredential
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.records.record_batch import BatchHeader, check_crc, read_header
from kafka_zk.storage.records.record_decoder import decode_records

LARGEST_BATCH_BYTES = 64 * 1024 * 1024
"""A controller writes at most 8 MB at once, but larger batches may be in snapshots and old logs."""

_CONFIG_TYPES = {2: TOPIC, 4: BROKER}
_MECHANISMS = {number: name for name, number in MECHANISM_NUMBERS.items()}
_LEADER_UNCHANGED = -2
_STATE_UNCHANGED = -1
_SNAPSHOT_FOOTER = 4


class UnreadableMetadata(Exception):
    """The metadata log cannot be read; ``str()`` is a sentence."""


@dataclass(frozen=True, slots=True)
class MetadataLog:
    """``end_offset``: the offset after the last replayed record. ``state``: MigrationState.NONE if
    there is no ZkMigrationStateRecord."""

    image: MetadataImage
    state: MigrationState
    end_offset: int
    source: str


class Replay:
    """``end_offset``: the offset after the last batch. ``leader_epoch``: the last batch's; -1 before the first
    batch."""

    def __init__(self) -> None:
        self.end_offset = 0
        self.leader_epoch = -1
        self._image = MetadataImage()
        self._state = MigrationState.NONE
        self._names: dict[UUID, str] = {}
        self._numbers: dict[str, set[int]] = {}
        """The partitions of each topic."""
        self._acl_ids: dict[UUID, tuple[Pattern, Acl]] = {}
        self._transaction: list[bytes] | None = None
        self._control_type = -1
        self._is_complete = False

    def snapshot_batch(self, data: bytes) -> None:
        """Raises UnreadableMetadata."""
        header = self._batch(data)
        self._is_complete = header.is_control and self._control_type == _SNAPSHOT_FOOTER

    def snapshot_ended(self, end_offset: int, leader_epoch: int) -> None:
        """``end_offset``: the offset after the records that the snapshot replaces. Raises UnreadableMetadata if the
        snapshot has no footer."""
        if not self._is_complete:
            raise UnreadableMetadata("the snapshot is incomplete: its last batch is missing")
        self.end_offset, self.leader_epoch = end_offset, leader_epoch

    def batch(self, data: bytes) -> None:
        """The log's next batch; batches that the snapshot replaces are skipped. Raises UnreadableMetadata."""
        header = read_header(data)
        if header.next_offset <= self.end_offset:
            return
        if header.base_offset > self.end_offset:
            missing = f"from offset {self.end_offset} to {header.base_offset - 1}"
            raise UnreadableMetadata(f"the records {missing} are missing")
        self._batch(data)
        self.end_offset, self.leader_epoch = header.next_offset, header.partition_leader_epoch

    def result(self, source: str) -> MetadataLog:
        return MetadataLog(self._image, self._state, self.end_offset, source)

    def _batch(self, data: bytes) -> BatchHeader:
        try:
            header = read_header(data)
            check_crc(data, 0, header)
            for record in decode_records(data, max_uncompressed_bytes=LARGEST_BATCH_BYTES):
                if header.is_control:
                    self._control_type = int.from_bytes((record.key or b"")[2:4], "big")  # the type follows a version
                else:
                    self._record(record.value or b"")
        except (StorageError, ProtocolError) as error:
            raise UnreadableMetadata(str(error)) from error
        return header

    def _record(self, value: bytes) -> None:
        match record_type(value):
            case None:
                return
            case RecordType.BEGIN_TRANSACTION:
                self._transaction = []
            case RecordType.ABORT_TRANSACTION:
                self._transaction = None
            case RecordType.END_TRANSACTION:
                ended, self._transaction = self._transaction or [], None
                for each in ended:
                    self._apply(each)
            case _:
                if self._transaction is None:
                    self._apply(value)
                else:
                    self._transaction.append(value)

    def _apply(self, value: bytes) -> None:
        kind, record = decode(value)
        try:
            _APPLY[kind](self, record)
        except (KeyError, ValueError) as error:
            raise UnreadableMetadata(f"a {kind.name.lower()} record does not fit those before it: {error!r}") from error

    # --- topics ---

    def _topic(self, record: Any) -> None:
        if record.topic_id is None:
            raise ValueError("a topic without an id")
        self._names[record.topic_id] = record.name
        self._numbers[record.name] = set()
        self._image.topics[record.name] = uuids.to_text(record.topic_id)

    def _remove_topic(self, record: Any) -> None:
        name = self._names.pop(record.topic_id)
        del self._image.topics[name]
        for number in self._numbers.pop(name):
            del self._image.partitions[name, number]
        self._image.configs.pop((TOPIC, name), None)

    def _partition(self, record: Any) -> None:
        name = self._names[record.topic_id]
        self._numbers[name].add(record.partition_id)
        self._image.partitions[name, record.partition_id] = PartitionState(
            tuple(record.replicas), tuple(record.adding_replicas), tuple(record.removing_replicas),
            tuple(sorted(record.isr)), record.leader, record.leader_epoch, record.leader_recovery_state,
        )  # fmt: skip

    def _partition_change(self, record: Any) -> None:
        key = self._names[record.topic_id], record.partition_id
        old = self._image.partitions[key]
        has_new_leader = record.leader != _LEADER_UNCHANGED
        keeps_state = record.leader_recovery_state == _STATE_UNCHANGED
        self._image.partitions[key] = PartitionState(
            old.replicas if record.replicas is None else tuple(record.replicas),
            old.adding if record.adding_replicas is None else tuple(record.adding_replicas),
            old.removing if record.removing_replicas is None else tuple(record.removing_replicas),
            old.isr if record.isr is None else tuple(sorted(record.isr)),
            record.leader if has_new_leader else old.leader,
            old.leader_epoch + has_new_leader,
            old.leader_recovery_state if keeps_state else record.leader_recovery_state,
        )  # fmt: skip

    # --- other records ---

    def _config(self, record: Any) -> None:
        if record.resource_type in _CONFIG_TYPES:
            entity = _CONFIG_TYPES[record.resource_type], record.resource_name
            _set(self._image.configs, entity, record.name, record.value)

    def _client_quota(self, record: Any) -> None:
        entity: Entity = tuple(sorted((each.entity_type, each.entity_name) for each in record.entity))
        _set(self._image.quotas, entity, record.key, None if record.remove else record.value)

    def _user(self, record: Any) -> None:
        self._image.users[record.name, _MECHANISMS[record.mechanism]] = ScramCredential(
            record.salt, record.stored_key, record.server_key, record.iterations
        )

    def _remove_user(self, record: Any) -> None:
        self._image.users.pop((record.name, _MECHANISMS[record.mechanism]), None)

    def _acl(self, record: Any) -> None:
        pattern = Pattern(ResourceType(record.resource_type), record.resource_name, PatternType(record.pattern_type))
        acl = Acl(record.principal, record.host, Operation(record.operation), Permission(record.permission_type))
        self._acl_ids[record.id] = pattern, acl
        self._image.acls.add((pattern, acl))

    def _remove_acl(self, record: Any) -> None:
        self._image.acls.discard(self._acl_ids.pop(record.id))

    def _token(self, record: Any) -> None:
        self._image.tokens[record.token_id] = Token(
            record.owner, record.requester, tuple(sorted(record.renewers)), record.issue_timestamp,
            record.max_timestamp, record.expiration_timestamp,
        )  # fmt: skip

    def _remove_token(self, record: Any) -> None:
        self._image.tokens.pop(record.token_id, None)

    def _producer_ids(self, record: Any) -> None:
        self._image.next_producer_id = record.next_producer_id

    def _migration_state(self, record: Any) -> None:
        self._state = MigrationState(record.zk_migration_state)


def _set(entries: Any, entity: Any, key: str, value: Any) -> None:
    """Set a key. None removes the key; an entity without keys is removed."""
    if value is not None:
        entries.setdefault(entity, {})[key] = value
    elif entity in entries:
        entries[entity].pop(key, None)
        if not entries[entity]:
            del entries[entity]


_APPLY: dict[RecordType, Callable[[Replay, Any], None]] = {
    RecordType.TOPIC: Replay._topic,
    RecordType.REMOVE_TOPIC: Replay._remove_topic,
    RecordType.PARTITION: Replay._partition,
    RecordType.PARTITION_CHANGE: Replay._partition_change,
    RecordType.CONFIG: Replay._config,
    RecordType.CLIENT_QUOTA: Replay._client_quota,
    RecordType.USER_SCRAM_CREDENTIAL: Replay._user,
    RecordType.REMOVE_USER_SCRAM_CREDENTIAL: Replay._remove_user,
    RecordType.ACCESS_CONTROL_ENTRY: Replay._acl,
    RecordType.REMOVE_ACCESS_CONTROL_ENTRY: Replay._remove_acl,
    RecordType.DELEGATION_TOKEN: Replay._token,
    RecordType.REMOVE_DELEGATION_TOKEN: Replay._remove_token,
    RecordType.PRODUCER_IDS: Replay._producer_ids,
    RecordType.ZK_MIGRATION_STATE: Replay._migration_state,
}
