"""Which offsets are copied from one side to the other, and why the others are not."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.cli.group_migration import COPIED, EQUAL, GOES_BACK, KEPT, NO_PARTITION, NOTHING_THERE, Row, plan
from kafka_zk.storage.types import TopicPartition

TPS = [TopicPartition("t", number) for number in range(5)]
OFFSETS = st.dictionaries(st.sampled_from(TPS), st.integers(0, 3))


def test_each_partition_has_a_row_with_a_reason() -> None:
    source = {TPS[0]: 5, TPS[1]: 5, TPS[2]: 5, TPS[3]: 5}
    target = {TPS[1]: 4, TPS[2]: 5, TPS[3]: 6, TPS[4]: 1}
    assert plan(source, target, {}, TPS, copied=COPIED) == [
        Row(TPS[0], 5, None, COPIED, None),
        Row(TPS[1], 5, 4, COPIED, None),
        Row(TPS[2], 5, 5, KEPT, EQUAL),
        Row(TPS[3], 5, 6, KEPT, GOES_BACK),
        Row(TPS[4], None, 1, KEPT, NOTHING_THERE),
    ]
    assert plan(source, {}, {TPS[0]: NO_PARTITION}, TPS[:1], copied=COPIED) == [
        Row(TPS[0], 5, None, KEPT, NO_PARTITION)
    ]


@given(OFFSETS, OFFSETS)
def test_no_offset_goes_back_and_a_second_time_copies_nothing(
    source: dict[TopicPartition, int], target: dict[TopicPartition, int]
) -> None:
    rows = plan(source, target, {}, {*source, *target}, copied=COPIED)
    after = target | {row.tp: row.source for row in rows if row.result == COPIED and row.source is not None}
    assert all(after[tp] >= offset for tp, offset in (*source.items(), *target.items()))
    assert all(row.result == KEPT for row in plan(source, after, {}, {*source, *after}, copied=COPIED))
