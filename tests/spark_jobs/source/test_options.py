"""Options: Spark's names and rules, and one sentence for each mistake."""

import re

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import OptionError
from kafka_zk.spark_jobs.source import offset_specs
from kafka_zk.spark_jobs.source.offset_specs import AtOffsets, AtTime, Committed, Earliest, Latest
from kafka_zk.spark_jobs.source.options import parse

BASE = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}


def test_defaults_are_those_of_sparks_source() -> None:
    options = parse(BASE)
    assert (options.starting, options.ending) == (Earliest(), Latest())
    assert parse(BASE, streaming=True).starting == Latest()
    assert options.fail_on_data_loss and not options.include_headers
    assert options.topics == ("t",)


def test_names_are_case_insensitive() -> None:
    given = {"KAFKA.BOOTSTRAP.SERVERS": "h:1", "SUBSCRIBE": "b, a", "minpartitions": "7", "FAILONDATALOSS": "False"}
    options = parse(given)
    assert (options.topics, options.min_partitions, options.fail_on_data_loss) == (("a", "b"), 7, False)


def test_offsets_as_json() -> None:
    options = parse({**BASE, "startingOffsets": '{"t":{"0":23,"1":-2}}', "endingOffsets": '{"t":{"0":50,"1":-1}}'})
    tps = TopicPartition("t", 0), TopicPartition("t", 1)
    assert options.starting == AtOffsets({tps[0]: 23, tps[1]: -2})
    assert options.ending == AtOffsets({tps[0]: 50, tps[1]: -1})


def test_a_time_goes_before_times_by_partition_before_offsets() -> None:
    by_partition = '{"t":{"0":5}}'
    given = {**BASE, "startingOffsets": "earliest", "startingOffsetsByTimestamp": by_partition}
    assert parse(given).starting == AtTime({TopicPartition("t", 0): 5})
    assert parse({**given, "startingTimestamp": "9"}).starting == AtTime(9)


def test_assign_names_partitions() -> None:
    given = {"kafka.bootstrap.servers": "h:1", "assign": '{"a":[1,0],"b":[2]}'}
    assert [str(tp) for tp in parse(given).partitions] == ["a-0", "a-1", "b-2"]


def test_a_pattern_matches_whole_names() -> None:
    options = parse({"kafka.bootstrap.servers": "h:1", "subscribePattern": "flights.*"})
    assert options.wants("flights-2013") and not options.wants("old-flights")


@pytest.mark.parametrize("pattern", [r"\Qd.a\E", r"d\p{Punct}a", r"(?<x>d).a"])
def test_patterns_are_java_s(pattern: str) -> None:
    options = parse({"kafka.bootstrap.servers": "h:1", "subscribePattern": pattern})
    assert options.wants("d.a") and not options.wants("d.ab")



def test_kafka_options_pass_through_and_group_ids_are_found() -> None:
    options = parse({**BASE, "zookeeper.connect": "z", "startingOffsets": "committed", "kafka.group.id": "g",
                     "kafka.fetch.max.wait.ms": "7"})  # fmt: skip
    assert options.starting == Committed()
    assert options.group_id == "g"
    assert options.kafka["fetch.max.wait.ms"] == "7"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("startingOffset", "there is no option startingOffset; did you mean startingOffsets?"),
        ("SUBSCRIBEPATERN", "there is no option SUBSCRIBEPATERN; did you mean subscribePattern?"),
        ("maxRecordPerRun", "did you mean maxRecordsPerRun?"),
        ("bootstrap.servers", "did you mean kafka.bootstrap.servers?"),
        ("colour", "there is no option colour$"),
        ("minOffsetsPerTrigger", "minOffsetsPerTrigger is not supported"),
    ],
)
def test_an_option_that_nobody_reads_is_refused_with_the_nearest_name(name: str, sentence: str) -> None:
    with pytest.raises(OptionError, match=re.escape(sentence).replace(re.escape("$"), "$")):
        parse({**BASE, name: "1"})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"subscribe": None}, "exactly one of subscribe, subscribePattern and assign"),
        ({"assign": "{}"}, "exactly one"),
        ({"subscribe": " , "}, "no topic"),
        ({"kafka.bootstrap.servers": None}, "bootstrap.servers or zookeeper.connect"),
        ({"startingOffsets": "latest"}, "cannot start at latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "cannot start at latest"),
        ({"endingOffsets": "earliest"}, "ends at latest or at offsets"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ends at latest or at offsets"),
        ({"startingOffsets": "newest"}, "neither a known word nor a valid JSON object"),
        ({"startingOffsets": '{"t":{"x":1}}'}, "not a partition with an offset"),
        ({"startingOffsets": "committed"}, "needs group.id and zookeeper.connect"),
        ({"startingTimestamp": "soon"}, "not a time in ms"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets says where"),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism"),
        ({"subscribe": None, "subscribePattern": "("}, "subscribePattern"),
    ],
)
def test_a_mistake_is_one_sentence(changes: dict[str, str | None], sentence: str) -> None:
    given = {name: value for name, value in {**BASE, **changes}.items() if value is not None}
    with pytest.raises(OptionError, match=sentence) as caught:
        parse(given)
    assert "\n" not in str(caught.value)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="a stream has no end"):
        parse({**BASE, "endingOffsets": "latest"}, streaming=True)


def test_offset_documents_round_trip() -> None:
    offsets = {TopicPartition("b", 10): 5, TopicPartition("a", 2): 0}
    assert offset_specs.format_offsets(offsets) == {"a": {"2": 0}, "b": {"10": 5}}
    assert offset_specs.offsets_of(offset_specs.format_offsets(offsets)) == offsets
