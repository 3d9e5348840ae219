"""AddPartitionsToTxn and EndTxn, decoded and encoded by hand, compared with the field tables."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.request import response_body_position
from kafka_zk.protocol.transactions import (
    read_add_partitions_to_txn_request,
    read_end_txn_request,
    write_add_partitions_to_txn_response,
    write_end_txn_response,
    write_partitions_added_to_txn,
)
from tests.kafka_zk.protocol.strategies import int32, int64, long_text

Add = codec.request(ApiKey.ADD_PARTITIONS_TO_TXN)
Topic = Add.AddPartitionsToTxnTopic
EPOCHS = st.integers(-1, 2**15 - 1)
CODES = st.sampled_from([ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_PRODUCER_EPOCH])


@given(st.integers(0, 3), long_text, int64, EPOCHS, st.lists(st.tuples(long_text, st.lists(int32, max_size=3))))
def test_partitions_that_are_added_are_read(
    version: int, name: str, producer_id: int, epoch: int, topics: list[tuple[str, list[int]]]
) -> None:
    message = Add(
        v3_and_below_transactional_id=name, v3_and_below_producer_id=producer_id, v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[Topic(name=topic, partitions=numbers) for topic, numbers in topics],
    )  # fmt: skip
    body = codec.encode_body(message, ApiKey.ADD_PARTITIONS_TO_TXN, version)
    tps = [TopicPartition(topic, number) for topic, numbers in topics for number in numbers]
    for _ in range(2):
        found = read_add_partitions_to_txn_request(version, memoryview(body))
        assert found == (name, producer_id, epoch, tuple(dict.fromkeys(tps)))
    for cut in range(len(body)):
        with pytest.raises(ProtocolError):
            read_add_partitions_to_txn_request(version, memoryview(body)[:cut])


@given(st.integers(0, 3), int32, st.dictionaries(st.tuples(st.sampled_from(["a", "é"]), int32), CODES))
def test_what_became_of_partitions_is_written(
    version: int, correlation_id: int, by_name: dict[tuple[str, int], ErrorCode]
) -> None:
    codes = {TopicPartition(*tp): code for tp, code in by_name.items()}
    answer = memoryview(write_add_partitions_to_txn_response(version, correlation_id, codes))
    if set(codes.values()) <= {ErrorCode.NONE}:
        assert write_partitions_added_to_txn(version, correlation_id, tuple(codes)) == answer
    position = response_body_position(answer, ApiKey.ADD_PARTITIONS_TO_TXN, version)
    decoded: Any = codec.decode_response(ApiKey.ADD_PARTITIONS_TO_TXN, version, answer[position:])
    assert int.from_bytes(answer[:4], "big", signed=True) == correlation_id
    assert codes == {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in decoded.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }
    assert codec.encode_body(decoded, ApiKey.ADD_PARTITIONS_TO_TXN, version) == answer[position:]


@given(st.integers(0, 4), long_text, int64, EPOCHS, st.booleans())
def test_the_end_of_a_transaction_is_read(
    version: int, name: str, producer_id: int, epoch: int, committed: bool
) -> None:
    message = codec.request(ApiKey.END_TXN)(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=committed
    )
    body = codec.encode_body(message, ApiKey.END_TXN, version)
    assert read_end_txn_request(version, memoryview(body)) == (name, producer_id, epoch, committed)
    for cut in range(len(body)):
        with pytest.raises(ProtocolError):
            read_end_txn_request(version, memoryview(body)[:cut])


@given(st.integers(0, 4), int32, CODES)
def test_what_became_of_the_end_is_written(version: int, correlation_id: int, code: ErrorCode) -> None:
    message = codec.response(ApiKey.END_TXN)(throttle_time_ms=0, error_code=code)
    expected = codec.encode_response(ApiKey.END_TXN, version, correlation_id, message)
    assert write_end_txn_response(version, correlation_id, code) == expected
