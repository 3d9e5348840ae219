"""Keys and values of the records in ``__transaction_state``, in Kafka's formats.

The key, version 0, is the transactional id; a tombstone removes it. Values are written in version 0, as by Kafka 3.9.
Version 1 (flexible, KIP-890 part 2) can also be read.

Source: TransactionLogKey, TransactionLogValue (messages of 3.9), TransactionLog.scala@3.9.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.broker.transaction.metadata import NO_PARTITIONS, TransactionMetadata
from kafka_zk.broker.transaction.states import STATES_BY_ID, TransactionState
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.primitives import MALFORMED, Buffer, length, read_count, read_name, skip_tagged_fields, string
from kafka_zk.storage.records.record_batch import BASE_TIMESTAMP_POSITION, assemble_batch, set_crc
from kafka_zk.storage.records.varint import encode_varint

_KEY_VERSION = 0
_VALUE_VERSION = 0
_FLEXIBLE_SINCE = 1
_VALUE_VERSIONS = range(2)

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEAD = struct.Struct(">hqhib")  # version, producer id, producer epoch, timeout in ms, state
_TIMES = struct.Struct(">qq")  # last update, start; in a batch header, first and last timestamp
_NO_PARTITIONS = _INT32.pack(-1)
_STATE_IDS = {state: number for number, state in enumerate(STATES_BY_ID)}
_RECORD_BEGINS = b"\0\0\0"  # attributes, deltas of timestamp and offset
_RECORD_ENDS = b"\0"  # no headers
_TIMES_POSITION = -len(_RECORD_ENDS) - _TIMES.size  # relative to the end of a batch
_LONGEST_CACHED = 255  # maximum length of an id
_MOST_CACHED = 16  # maximum number of a transaction's partitions
_EMPTY = TransactionState.EMPTY
_STORED = frozenset(STATES_BY_ID) - {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}


def encode_key(transactional_id: str) -> bytes:
    return _INT16.pack(_KEY_VERSION) + string(transactional_id, False)


def decode_key(key: Buffer) -> str | None:
    """The transactional id; None for a key of an unknown version, which Kafka ignores too.

    Raises: ProtocolError.
    """
    try:
        (version,) = _INT16.unpack_from(key, 0)
        return read_name(key, 2, False)[0] if version == _KEY_VERSION else None
    except MALFORMED as error:
        raise ProtocolError(f"a malformed key in __transaction_state: {error}") from error


def encode_value(metadata: TransactionMetadata) -> bytes:
    producer_id, producer_epoch, timeout_ms, state, tps, start_ms, last_update_ms, _, _ = metadata
    added = _NO_PARTITIONS if state is _EMPTY else _partitions(tps)
    head = _HEAD.pack(_VALUE_VERSION, producer_id, producer_epoch, timeout_ms, _STATE_IDS[state])
    return b"".join((head, added, _TIMES.pack(last_update_ms, start_ms)))


def encode_batch(transactional_id: str, metadata: TransactionMetadata, now_ms: int) -> bytearray:
    """Encode a batch with one record. Optimised, because each step of a transaction writes one."""
    producer_id, producer_epoch, timeout_ms, state, tps, start_ms, last_update_ms, _, _ = metadata
    if len(tps) > _MOST_CACHED or len(transactional_id) > _LONGEST_CACHED:
        return _assemble(transactional_id, encode_value(metadata), now_ms)
    if state is _EMPTY:  # every id begins with this state; a template for each id would be used only once
        name = transactional_id.encode()
        template, value_position, name_position = _empty_template(len(name))
        batch = bytearray(template)
        batch[name_position : name_position + len(name)] = name
    else:
        template, value_position = _template(transactional_id, tps)
        batch = bytearray(template)
    _TIMES.pack_into(batch, BASE_TIMESTAMP_POSITION, now_ms, now_ms)
    _HEAD.pack_into(
        batch, value_position, _VALUE_VERSION, producer_id, producer_epoch, timeout_ms, _STATE_IDS[state]
    )
    _TIMES.pack_into(batch, _TIMES_POSITION, last_update_ms, start_ms)
    set_crc(batch)
    return batch


@lru_cache(maxsize=2048)
def _template(transactional_id: str, tps: frozenset[TopicPartition]) -> tuple[bytes, int]:
    """The batch of an id with a transaction. The changing fields are left out. Also returns the position of the
    value."""
    value = encode_value(TransactionMetadata(0, 0, 0, TransactionState.ONGOING, tps))
    batch = _assemble(transactional_id, value, 0)
    return bytes(batch), len(batch) - len(_RECORD_ENDS) - len(value)


@lru_cache(maxsize=256)
def _empty_template(name_bytes: int) -> tuple[bytes, int, int]:
    """The batch of an id without a transaction. The name and the changing fields are left out. Also returns the
    positions of the value and of the name."""
    value = encode_value(TransactionMetadata(0, 0, 0, _EMPTY))
    batch = _assemble("?" * name_bytes, value, 0)
    value_position = len(batch) - len(_RECORD_ENDS) - len(value)
    return bytes(batch), value_position, value_position - len(encode_varint(len(value))) - name_bytes


def _assemble(transactional_id: str, value: bytes, now_ms: int) -> bytearray:
    key = encode_key(transactional_id)
    record = b"".join(
        (_RECORD_BEGINS, encode_varint(len(key)), key, encode_varint(len(value)), value, _RECORD_ENDS)
    )
    return assemble_batch(
        encode_varint(len(record)) + record,
        attributes=0, record_count=1, base_timestamp=now_ms, max_timestamp=now_ms,
    )  # fmt: skip


def _partitions(tps: frozenset[TopicPartition]) -> bytes:
    by_topic = partitions_by_topic(sorted(tps))
    parts = [length(len(by_topic), False)]
    for topic, partitions in by_topic.items():
        parts += (string(topic, False), length(len(partitions), False), *map(_INT32.pack, partitions))
    return b"".join(parts)


def decode_value(value: Buffer) -> TransactionMetadata:
    """Decode the value of a record. Raises: ProtocolError, also for an unknown version."""
    try:
        (version,) = _INT16.unpack_from(value, 0)
        if version not in _VALUE_VERSIONS:
            raise ProtocolError(f"a value of version {version} in __transaction_state, at most 1 is supported")
        flexible = version >= _FLEXIBLE_SINCE
        _, producer_id, producer_epoch, timeout_ms, state_id = _HEAD.unpack_from(value, 0)
        tps, position = _read_partitions(value, _HEAD.size, flexible)
        last_update_ms, start_ms = _TIMES.unpack_from(value, position)
        if flexible:
            skip_tagged_fields(value, position + _TIMES.size)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed transaction: {error}") from error
    state = STATES_BY_ID[state_id] if 0 <= state_id < len(STATES_BY_ID) else None
    if state not in _STORED or producer_id < 0 or producer_epoch < 0:
        raise ProtocolError(f"a transaction in state {state_id} of producer {producer_id} with epoch {producer_epoch}")
    if state is TransactionState.EMPTY:
        tps = NO_PARTITIONS
    return TransactionMetadata(producer_id, producer_epoch, timeout_ms, state, tps, start_ms, last_update_ms)


def _read_partitions(value: Buffer, position: int, flexible: bool) -> tuple[frozenset[TopicPartition], int]:
    if not flexible and _INT32.unpack_from(value, position)[0] == -1:
        return NO_PARTITIONS, position + 4
    if flexible and value[position] == 0:
        return NO_PARTITIONS, position + 1
    topic_count, position = read_count(value, position, flexible)
    tps: set[TopicPartition] = set()
    for _ in range(topic_count):
        topic, position = read_name(value, position, flexible)
        partition_count, position = read_count(value, position, flexible)
        partitions: Iterable[int] = struct.unpack_from(f">{partition_count}i", value, position)
        position += 4 * partition_count
        tps.update(TopicPartition(topic, partition) for partition in partitions)
        if flexible:
            position = skip_tagged_fields(value, position)
    return frozenset(tps), position
