"""Encoding in steps: the same bytes as in one go."""

from typing import Any

import pytest

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
    """In all versions; what is yielded is about what was written."""
    message = make(*shape)
    for version in versions:
        steps = codec.encode_response_in_steps(api_key, version, 7, message)
        yielded = []
        try:
            while True:
                yielded.append(next(steps))
        except StopIteration as end:
            encoded = end.value
        assert encoded == codec.encode_response(api_key, version, 7, message)
        assert sum(yielded) <= len(encoded)
        assert max(yielded, default=0) < 16 * 1024


@pytest.mark.parametrize(
    ("make", "shape", "is_large"),
    [
        (list_offsets, (1, 10), False),
        (list_offsets, (1, 2000), True),
        (list_offsets, (2000, 0), True),
        (list_offsets, (1000, 1), True),
        (describe_log_dirs, (1, 10), False),
        (describe_log_dirs, (1, 2000), True),
    ],
)
def test_the_elements_of_all_arrays_count(make: Any, shape: tuple[int, int], is_large: bool) -> None:
    """However they are nested."""
    api_key = ApiKey.LIST_OFFSETS if make is list_offsets else ApiKey.DESCRIBE_LOG_DIRS
    assert codec.is_large_response(api_key, 4, make(*shape)) == is_large
