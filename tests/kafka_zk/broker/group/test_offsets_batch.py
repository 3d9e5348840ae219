"""The hand-built batch of a commit, compared with the batch builder and with the formats of its records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.offsets_batch import OffsetsBatch
from kafka_zk.broker.group.records import OffsetAndMetadata, OffsetKeys, encode_offset_value
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.kafka_zk.protocol.strategies import int32, int64, text

NOW_MS = 1_700_000_000_000

tps = st.builds(TopicPartition, st.sampled_from(["t", "é", "x" * 200]), int32)
offsets = st.builds(
    OffsetAndMetadata, int64, int32, st.sampled_from(["", "", "m", "é" * 100]), int64, st.sampled_from([-1, NOW_MS])
)


def built_by_the_builder(group_id: str, committed: dict[TopicPartition, OffsetAndMetadata]) -> bytes:
    builder = RecordBatchBuilder()
    for tp, offset in committed.items():
        builder.append(NOW_MS, OffsetKeys(group_id).encode(tp), encode_offset_value(offset))
    return builder.build()


@given(text, st.dictionaries(tps, offsets, min_size=1, max_size=5))
def test_it_is_what_the_builder_makes(group_id: str, committed: dict[TopicPartition, OffsetAndMetadata]) -> None:
    batch = OffsetsBatch(group_id, NOW_MS, 100)
    batch.add(committed.items())
    assert batch.offsets == committed
    assert batch.build() == built_by_the_builder(group_id, committed)


@pytest.mark.parametrize("metadata", ["", "m"])
def test_thousands_of_partitions(metadata: str) -> None:
    """The record numbers in the batch take from one to three bytes."""
    committed = {
        TopicPartition("t", number): OffsetAndMetadata(number, -1, metadata, NOW_MS) for number in range(9_000)
    }
    batch = OffsetsBatch("g", NOW_MS, 100)
    batch.add(committed.items())
    assert batch.build() == built_by_the_builder("g", committed)
