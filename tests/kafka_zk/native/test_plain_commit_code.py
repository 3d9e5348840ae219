"""The function ``plain_commit`` of the native module. Tests of the broker that calls it are in handlers/groups."""

import gc
import struct
from typing import Any

import pytest

from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.native.loading import Native
from tests.bench.groups.wire import commit_body
from tests.kafka_zk.native.test_c_code import CALLS, LEAK_BYTES_AT_MOST, WARM_UP_CALLS, resident_bytes

VERSION = 7
ROW_BYTES = 18
BODY = commit_body("group", "topic", range(1_000, 1_050), 1 << 40)


def read(native: Native, body: Any = BODY, now_ms: Any = 1 << 40, committed: Any = OffsetAndMetadata) -> Any:
    return native.plain_commit(VERSION, 7, memoryview(body), now_ms, committed)


def test_what_is_committed_has_the_class_that_is_wanted(native: Native) -> None:
    group_id, generation_id, member_id, group_instance_id, topics, _, _ = read(native)
    assert (group_id, generation_id, member_id, group_instance_id) == ("group", -1, "", None)
    [(name, partitions, committed)] = topics
    assert (name, partitions) == ("topic", tuple(range(1_000, 1_050)))
    assert committed == (OffsetAndMetadata(1 << 40, -1, "", 1 << 40),) * 50
    assert {type(each) for each in committed} == {OffsetAndMetadata}
    assert set(committed) == {OffsetAndMetadata(1 << 40, -1, "", 1 << 40)}, "equal ones have equal hashes"


def test_each_partition_has_its_own_offset(native: Native) -> None:
    """The offsets differ although all of them are made from one tuple of fields."""
    body = bytearray(BODY)
    struct.pack_into(">qi", body, len(body) - ROW_BYTES + 4, 7, 3)
    [(_, _, committed)] = read(native, body)[4]
    assert [each[:2] for each in committed[-2:]] == [(1 << 40, -1), (7, 3)]


@pytest.mark.parametrize("wrong", [{"now_ms": "text"}, {"now_ms": 1 << 63}, {"committed": list}, {"committed": 7}])
def test_what_is_no_argument_is_refused(native: Native, wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, OverflowError)):
        read(native, **wrong)
    with pytest.raises(TypeError):
        native.plain_commit(VERSION)  # type: ignore[call-arg]


@pytest.mark.slow
def test_calls_and_refusals_leak_nothing(native: Native) -> None:
    def calls(count: int) -> int:
        done = 0
        for number in range(count):
            done += read(native, BODY if number % 2 else BODY[:-1]) is not None
            try:
                read(native, now_ms=None)
            except TypeError:
                continue
        gc.collect()
        return done

    calls(WARM_UP_CALLS)
    before = resident_bytes()
    assert calls(CALLS) == CALLS // 2
    assert resident_bytes() - before < LEAK_BYTES_AT_MOST
