"""Encoding in steps gives the same bytes as encoding in one call."""

from typing import Any

import pytest

from kafka_zk.broker.controller.control_requests import LeaderAndIsrState
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey

ListOffsets = codec.response(ApiKey.LIST_OFFSETS)
DescribeLogDirs = codec.response(ApiKey.DESCRIBE_LOG_DIRS)


def list_offsets(topics: int, partitions: int) -> Any:
    topic = ListOffsets.ListOffsetsTopicResponse
    result = topic.ListOffsetsPartitionResponse
    return ListOffsets(
        throttle_time_ms=0,
        topics=[
            topic(
                name=f"topic {number}",
                partitions=[
                    result(
                        partition_index=index, error_code=0, timestamp=-1, offset=index, leader_epoch=1,
                        old_style_offsets=[index],
                    )
                    for index in range(partitions)
                ],
            )
            for number in range(topics)
        ],
    )  # fmt: skip


def describe_log_dirs(topics: int, partitions: int) -> Any:
    directory = DescribeLogDirs.DescribeLogDirsResult
    topic = directory.DescribeLogDirsTopic
    partition = topic.DescribeLogDirsPartition
    return DescribeLogDirs(
        throttle_time_ms=0, error_code=0,
        results=[
            directory(
                error_code=0, log_dir=f"/{name}", total_bytes=2, usable_bytes=1,
                topics=[
                    topic(
                        name=f"topic {number}",
                        partitions=[
                            partition(partition_index=index, partition_size=index, offset_lag=0, is_future_key=False)
                            for index in range(partitions)
                        ],
                    )
                    for number in range(topics)
                ],
            )
            for name in "ab"
        ],
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(0, 0), (1, 0), (3, 2), (1, 2000), (2000, 1), (50, 100), (70, 400)])
@pytest.mark.parametrize(
    ("api_key", "make", "versions"),
    [(ApiKey.LIST_OFFSETS, list_offsets, range(10)), (ApiKey.DESCRIBE_LOG_DIRS, describe_log_dirs, range(1, 5))],
)
def test_the_bytes_are_those_of_one_go(api_key: ApiKey, make: Any, versions: range, shape: tuple[int, int]) -> None:
    """The bytes are equal in all versions. Each yielded value is about the number of bytes written."""
    message = make(*shape)
    for version in versions:
        steps = codec.encode_response_in_steps(api_key, version, 7, message)
        yielded = []
        try:
            while True:
                yielded.append(next(steps))
        except StopIteration as end:
            encoded = end.value
        assert b"".join(encoded) == codec.encode_response(api_key, version, 7, message)
        assert sum(yielded) <= len(b"".join(encoded))
        assert max(yielded, default=0) < 16 * 1024


@pytest.mark.parametrize("partitions", [0, 1, 15, 16, 63, 64, 1000])
@pytest.mark.parametrize("topics", [1, 3])
def test_rows_have_the_bytes_of_one_go(topics: int, partitions: int) -> None:
    """Arrays have all lengths; in versions before 2 a row has a name, too."""
    request = codec.request(ApiKey.LEADER_AND_ISR)

    def state(number: int) -> LeaderAndIsrState:
        few, many = range(number % 9), range(number % 7 * 30)
        return LeaderAndIsrState("t", number, 1, 2, 3, few, 4, many, [], [1], number % 2 == 0, 1)

    states = [state(number) for number in range(partitions)]
    message = request(
        controller_id=1, controller_epoch=1, broker_epoch=1, type=0, is_k_raft_controller=False, live_leaders=[],
        ungrouped_partition_states=states,
        topic_states=[
            request.LeaderAndIsrTopicState(topic_name=f"t{number}", topic_id=None, partition_states=states)
            for number in range(topics)
        ],
    )  # fmt: skip
    for version in range(8):
        steps = codec.encode_body_in_steps(message, ApiKey.LEADER_AND_ISR, version)
        try:
            while True:
                assert next(steps) < 16 * 1024
        except StopIteration as end:
            assert end.value == codec.encode_body(message, ApiKey.LEADER_AND_ISR, version)


@pytest.mark.parametrize(
    ("make", "shape", "is_large"),
    [
        (list_offsets, (1, 10), False),
        (list_offsets, (1, 2000), True),
        (list_offsets, (2000, 0), True),
        (list_offsets, (1000, 1), True),
        (describe_log_dirs, (1, 5), False),
        (describe_log_dirs, (1, 2000), True),
    ],
)
def test_the_elements_of_all_arrays_count(make: Any, shape: tuple[int, int], is_large: bool) -> None:
    """All elements count, however the arrays are nested."""
    api_key = ApiKey.LIST_OFFSETS if make is list_offsets else ApiKey.DESCRIBE_LOG_DIRS
    assert codec.is_large_response(api_key, 4, make(*shape)) == is_large
