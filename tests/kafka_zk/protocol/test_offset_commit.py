"""OffsetCommit in every version, decoded and encoded by hand, compared with the field tables."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.protocol import codec, offset_commit
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.offset_commit import (
    OffsetCommitRequest,
    Rows,
    read_offset_commit_request,
    read_offset_commit_request_in_steps,
)
from kafka_zk.protocol.request import response_body_position
from kafka_zk.protocol.request_limits import MAX_BODY_BYTES, max_elements
from tests.kafka_zk.protocol.strategies import error_code, int32, int64, long_text, text

VERSIONS = st.integers(0, 9)

Commit = codec.request(ApiKey.OFFSET_COMMIT)
Topic = Commit.OffsetCommitRequestTopic
Partition = Topic.OffsetCommitRequestPartition


@st.composite
def bodies(draw: Any) -> tuple[int, bytes]:
    """Some topics have more partitions than one step reads."""
    version = draw(VERSIONS)
    partition = st.builds(
        Partition, partition_index=int32, committed_offset=int64, committed_leader_epoch=int32, commit_timestamp=int64,
        committed_metadata=st.sampled_from([None, "", "", "é", "x" * 200]),
    )  # fmt: skip
    partitions = st.one_of(st.lists(partition, max_size=3), st.lists(partition, max_size=1).map(lambda one: one * 100))
    topics = st.lists(st.builds(Topic, name=long_text, partitions=partitions), max_size=3)
    request = Commit(
        group_id=draw(long_text), generation_id_or_member_epoch=draw(int32), member_id=draw(text),
        group_instance_id=draw(st.one_of(st.none(), text)), retention_time_ms=draw(int64), topics=draw(topics),
    )  # fmt: skip
    return version, bytes(codec.encode_body(request, ApiKey.OFFSET_COMMIT, version))


def by_hand(version: int, body: bytes | bytearray) -> OffsetCommitRequest:
    """Decoded by hand: the pieces of a topic are joined, as rows."""
    request = read_offset_commit_request(version, memoryview(body))
    topics: Any = [(name, [row for piece in pieces for row in _rows(piece)]) for name, pieces in request.topics]
    return request._replace(topics=topics)


def _rows(piece: Rows) -> list[tuple[int, int, int, str, int]]:
    count = len(piece.partitions)
    metadata = [""] * count if piece.metadata is None else piece.metadata
    times_ms = [-1] * count if piece.metadata is None else piece.timestamps_ms
    return list(zip(piece.partitions, piece.offsets, piece.leader_epochs, metadata, times_ms, strict=True))


def by_table(version: int, body: bytes) -> OffsetCommitRequest:
    request = codec.decode_request(ApiKey.OFFSET_COMMIT, version, body)

    def of_version(value: Any, absent: Any, first: int, last: int = 9) -> Any:
        return value if first <= version <= last else absent

    topics: Any = [
        (
            topic.name,
            [
                (
                    row.partition_index,
                    row.committed_offset,
                    of_version(row.committed_leader_epoch, -1, 6),
                    row.committed_metadata or "",
                    of_version(row.commit_timestamp, -1, 1, 1),
                )
                for row in topic.partitions
            ],
        )
        for topic in request.topics
    ]  # rows, as by_hand
    return OffsetCommitRequest(
        request.group_id,
        of_version(request.generation_id_or_member_epoch, -1, 1),
        of_version(request.member_id, "", 1),
        of_version(request.group_instance_id, None, 7),
        of_version(request.retention_time_ms, -1, 2, 4),
        topics,
    )


@given(bodies())
def test_a_request_is_read_as_the_table_says(case: tuple[int, bytes]) -> None:
    version, body = case
    assert by_hand(version, body) == by_table(version, body)


@given(bodies(), st.data())
def test_a_spoilt_request_is_read_as_the_table_says_or_refused_by_both(case: tuple[int, bytes], data: Any) -> None:
    version, whole = case
    body = bytearray(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    for _ in range(data.draw(st.integers(0, 3)) if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    try:
        expected = by_table(version, bytes(body))
    except ProtocolError:
        with pytest.raises(ProtocolError):
            read_offset_commit_request(version, memoryview(body))
    else:
        assert by_hand(version, body) == expected


def test_elements_are_counted_before_they_are_read() -> None:
    count = max_elements(ApiKey.OFFSET_COMMIT)
    rows = [Partition(partition_index=0, committed_offset=0, committed_metadata="")] * count
    request = Commit(group_id="g", member_id="", topics=[Topic(name="t", partitions=rows)])
    body = memoryview(codec.encode_body(request, ApiKey.OFFSET_COMMIT, 9))
    with pytest.raises(ProtocolError, match="topics and partitions"):
        read_offset_commit_request(9, body)
    with pytest.raises(ProtocolError, match="at most"):
        next(read_offset_commit_request_in_steps(9, memoryview(bytes(MAX_BODY_BYTES + 1))))


@given(VERSIONS, st.lists(st.tuples(text, st.lists(st.tuples(int32, error_code), max_size=3)), max_size=3))
def test_an_answer_is_what_the_table_reads(version: int, topics: list[tuple[str, list[tuple[int, int]]]]) -> None:
    pack = offset_commit.result_struct(version).pack
    written = [
        offset_commit.topic_result(version, name, [pack(*result) for result in results]) for name, results in topics
    ]
    frame = memoryview(offset_commit.write_offset_commit_response(version, 7, written))
    body = frame[response_body_position(frame, ApiKey.OFFSET_COMMIT, version) :]
    answer = codec.decode_response(ApiKey.OFFSET_COMMIT, version, body)
    assert bytes(body) == codec.encode_body(answer, ApiKey.OFFSET_COMMIT, version)
    read = [(each.name, [(row.partition_index, row.error_code) for row in each.partitions]) for each in answer.topics]
    assert read == topics
