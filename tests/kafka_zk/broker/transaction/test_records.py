"""Records of ``__transaction_state``: bytes as Kafka 3.9 writes them, and hostile ones."""

from random import Random

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.broker.transaction.records import decode_key, decode_value, encode_batch, encode_key, encode_value
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.storage.records.record_batch import RecordBatchBuilder

TPS = frozenset({TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("a", 7)})
ONGOING = TransactionMetadata(5, 3, 60_000, TransactionState.ONGOING, TPS, 1_000, 2_000)
ONGOING_BYTES = bytes.fromhex(
    "0000 0000000000000005 0003 0000ea60 01"
    "00000002 0001 61 00000002 00000000 00000007 0001 62 00000001 00000001"
    "00000000000007d0 00000000000003e8"
)

STORED = [each for each in TransactionState if each.value not in ("Dead", "PrepareEpochFence")]


def test_the_key_is_kafkas() -> None:
    assert encode_key("ä") == bytes.fromhex("0000 0002 c3a4")
    assert decode_key(encode_key("ä")) == "ä"
    assert decode_key(b"\x00\x01\x00\x00") is None
    for broken in (b"", b"\x00", b"\x00\x00\x00\x02a", b"\x00\x00\xff\xff"):
        with pytest.raises(ProtocolError):
            decode_key(broken)


def test_the_value_is_kafkas() -> None:
    assert encode_value(ONGOING) == ONGOING_BYTES
    assert decode_value(ONGOING_BYTES) == ONGOING


def test_an_empty_one_has_null_for_its_partitions() -> None:
    empty = ONGOING._replace(state=TransactionState.EMPTY, tps=frozenset(), start_ms=-1)
    assert encode_value(empty)[17:21] == b"\xff\xff\xff\xff"
    assert decode_value(encode_value(empty)) == empty
    complete = empty._replace(state=TransactionState.COMPLETE_ABORT)
    assert encode_value(complete)[17:21] == b"\x00\x00\x00\x00"
    assert decode_value(encode_value(complete)) == complete


@pytest.mark.parametrize("transactional_id", ["a", "ä-ö", "ä" * 300])
def test_a_batch_has_the_key_and_the_value(transactional_id: str) -> None:
    """The batch equals one built record by record, for every state, even if the id has written to the same partitions
    before.
    """
    random = Random(2)
    for _ in range(200):
        state = random.choice(STORED)
        tps = random.choice([frozenset(), TPS, frozenset(TopicPartition("t", number) for number in range(20))])
        producer_id, epoch, timeout_ms = (random.randint(0, 2**bits - 1) for bits in (62, 15, 31))
        start_ms, updated_ms = (random.randint(-1, 2**60) for _ in range(2))
        metadata = TransactionMetadata(producer_id, epoch, timeout_ms, state, tps, start_ms, updated_ms)
        now_ms = random.randint(0, 2**60)
        built = RecordBatchBuilder()
        built.append(now_ms, encode_key(transactional_id), encode_value(metadata))
        assert encode_batch(transactional_id, metadata, now_ms) == built.build()


def test_the_flexible_version_can_be_read() -> None:
    value = bytes.fromhex(
        "0001 0000000000000005 0003 0000ea60 01 03 0261 03 00000000 00000007 00 0262 02 00000001 00"
        "00000000000007d0 00000000000003e8 01 02 02 0002"
    )
    assert decode_value(value) == ONGOING


def test_broken_values_are_refused() -> None:
    """A changed or truncated value either decodes or raises ProtocolError."""
    random = Random(1)
    for _ in range(3_000):
        value = bytearray(ONGOING_BYTES[: random.randint(0, len(ONGOING_BYTES))])
        for _ in range(random.randint(0, 3)):
            if value:
                value[random.randrange(len(value))] = random.randrange(256)
        try:
            decode_value(bytes(value))
        except ProtocolError:
            continue
    for state_id in (6, 7, 8, 255):  # Dead and PrepareEpochFence are never stored
        with pytest.raises(ProtocolError):
            decode_value(ONGOING_BYTES[:16] + bytes([state_id]) + ONGOING_BYTES[17:])
