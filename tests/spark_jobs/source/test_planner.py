"""The plan of a read, as a table: what brokers respond, and what is read then."""

from collections.abc import Iterable, Mapping

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import DataLoss, OptionError
from kafka_zk.spark_jobs.source import planner
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.options import parse

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Cluster:
    """Two topics. Each partition has offsets 10 to 100, with one record a second from timestamp 1,000,000 on, and open
    transactions up to offset 105."""

    def partition_counts(self, topics: Iterable[str] | None = None) -> dict[str, int]:
        counts = {"a": 2, "b": 1}
        return {name: count for name, count in counts.items() if topics is None or name in set(topics)}

    def topic_names(self) -> list[str]:
        return ["a", "b", "flights"]

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: self._offset(spec) for tp, spec in wanted.items()}

    def log_ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 105)

    def _offset(self, spec: int) -> int:
        if spec in (-2, -1):
            return {-2: 10, -1: 100}[spec]
        found = max(10, 10 + -(-(spec - 1_000_000) // 1000))
        return found if found < 100 else -1


def plan(committed: Mapping[TopicPartition, int] | None = None, /, **given: str) -> list[OffsetRange]:
    options = {"kafka.bootstrap.servers": "h:1", **{name.replace("__", "."): value for name, value in given.items()}}
    return planner.plan(parse(options), Cluster(), lambda wanted: dict(committed or {}))


def test_everything_of_the_subscribed_topics() -> None:
    assert plan(subscribe="a,b") == [OffsetRange(*tp, 10, 100) for tp in (A0, A1, B0)]
    assert plan(subscribePattern="[ab]") == plan(subscribe="a,b")
    assert plan(assign='{"a":[1]}') == [OffsetRange(*A1, 10, 100)]


def test_offsets_may_mix_numbers_and_the_ends() -> None:
    assert plan(subscribe="a", startingOffsets='{"a":{"0":40,"1":-2}}', endingOffsets='{"a":{"0":50,"1":-1}}') == [
        OffsetRange(*A0, 40, 50),
        OffsetRange(*A1, 10, 100),
    ]


def test_times_become_offsets_and_a_late_end_is_the_end_of_the_log() -> None:
    assert plan(subscribe="b", startingTimestamp="1004500", endingTimestamp="9999999") == [OffsetRange(*B0, 15, 100)]


def test_a_start_after_the_newest_record_is_an_error_unless_latest_is_wanted() -> None:
    with pytest.raises(OptionError, match="after the newest record of b-0"):
        plan(subscribe="b", startingTimestamp="9999999")
    assert plan(subscribe="b", startingTimestamp="9999999", startingOffsetsByTimestampStrategy="latest") == []


def test_committed_offsets_and_the_beginning_where_there_are_none() -> None:
    found = plan({A1: 70}, subscribe="a", startingOffsets="committed", group__id="g", zookeeper__connect="z")
    assert found == [OffsetRange(*A0, 10, 100), OffsetRange(*A1, 70, 100)]


def test_a_run_is_capped() -> None:
    assert sum(each.size for each in plan(subscribe="a,b", maxRecordsPerRun="31")) == 31


def test_what_is_not_there_is_named() -> None:
    for given, sentence in (
        ({"subscribe": "a,zebra"}, "no topic zebra"),
        ({"assign": '{"a":[5]}'}, "no partition a-5"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":1}}'}, "a-1 is missing"),
        ({"subscribe": "b", "startingOffsets": '{"b":{"0":11,"1":12}}'}, "names b-1"),
    ):
        with pytest.raises(OptionError, match=sentence):
            plan(**given)


def test_an_end_beyond_the_log_is_loss_or_the_end_of_the_log() -> None:
    ending = '{"b":{"0":500}}'
    with pytest.raises(DataLoss, match="beyond the end of b-0"):
        plan(subscribe="b", endingOffsets=ending)
    assert plan(subscribe="b", endingOffsets=ending, failOnDataLoss="false") == [OffsetRange(*B0, 10, 100)]


def test_a_start_behind_the_end_is_a_mistake_or_loss() -> None:
    """Reading nothing would hide both."""
    before = "from offset 50 to 40, which is before the start"
    with pytest.raises(OptionError, match=before):
        plan(subscribe="b", startingOffsets='{"b":{"0":50}}', endingOffsets='{"b":{"0":40}}')
    with pytest.raises(OptionError, match=before):
        plan(subscribe="b", startingTimestamp="1040000", endingTimestamp="1030000")
    with pytest.raises(DataLoss, match="from offset 500 on, but its log ends at offset 105"):
        plan(subscribe="b", startingOffsets='{"b":{"0":500}}')
    with pytest.raises(DataLoss, match="from offset 500 on"):
        plan({B0: 500}, subscribe="b", startingOffsets="committed", group__id="g", zookeeper__connect="z")
    with pytest.raises(OptionError, match="from offset 500 to 100, which is before the start"):
        plan(subscribe="b", startingOffsets='{"b":{"0":500}}', failOnDataLoss="false")


def test_a_start_where_nothing_is_left_reads_nothing() -> None:
    ending = '{"b":{"0":40}}'
    late = {"startingTimestamp": "9999999", "startingOffsetsByTimestampStrategy": "latest"}
    assert plan(subscribe="b", endingOffsets=ending, **late) == []
    assert plan(subscribe="b", endingOffsets='{"b":{"0":5}}') == []
    beyond = {"startingOffsets": '{"b":{"0":500}}', "endingOffsets": '{"b":{"0":600}}'}
    assert plan(subscribe="b", failOnDataLoss="false", **beyond) == []
    committed = {"startingOffsets": "committed", "group__id": "g", "zookeeper__connect": "z"}
    assert plan({B0: 500}, subscribe="b", failOnDataLoss="false", **committed) == []
    assert plan({B0: 70}, subscribe="b", endingOffsets=ending, **committed) == []


@pytest.mark.parametrize("offset", [101, 105])
def test_offsets_of_open_transactions_are_no_loss(offset: int) -> None:
    """A group that reads uncommitted, or a run of an older version, may have read further than is readable now."""
    zookeeper = {"zookeeper__connect": "z:1", "group__id": "g"}
    assert plan({B0: offset}, subscribe="b", startingOffsets="committed", **zookeeper) == []
    given = f'{{"b":{{"0":{offset}}}}}'
    assert plan(subscribe="b", startingOffsets=given) == []
    assert plan(subscribe="b", endingOffsets=given) == [OffsetRange(*B0, 10, 100)]


def test_only_committed_records_are_read_unless_asked() -> None:
    """The option may have Kafka's prefix, which takes precedence."""
    for given, expected in (
        ({}, True),
        ({"isolation.level": "read_uncommitted"}, False),
        ({"kafka.isolation.level": "read_uncommitted"}, False),
        ({"kafka.isolation.level": "READ_COMMITTED", "isolation.level": "read_uncommitted"}, True),
    ):
        options = parse({"subscribe": "b", "kafka.bootstrap.servers": "h:1", **given})
        assert planner.client_settings(options.kafka, "h:1").read_committed is expected
    with pytest.raises(OptionError, match="neither read_committed nor read_uncommitted"):
        planner.client_settings({"isolation.level": "serializable"}, "h:1")
