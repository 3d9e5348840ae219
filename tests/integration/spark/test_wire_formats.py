"""Extractions of values of Confluent's serializers, with a schema registry; dead letters; SQL before writing."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.errors import Undecodable, WronglyAsked
from kafka_zk.spark_jobs.extraction.dead_letters import OFFSET, PARTITION, REASON, TOPIC
from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.extraction.verification import verify
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.spark.sessions import spark  # noqa: F401
from tests.schema_registry import SchemaRegistryServer, schema_registry
from tests.spark_jobs.values.test_value_decoder import (
    FIRST_AVRO,
    SECOND_JSON,
    SECOND_PROTO,
    json_value,
    message,
    protobuf,
)

pytestmark = [pytest.mark.integration, pytest.mark.spark]
NEWER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"n","type":"int","default":7}]}'
UNKNOWN_ID = b"\0\0\0\x27\x0f..."


class Killed(BaseException):
    """Simulates the death of the process."""


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with schema_registry() as running:
        yield running


class Orders:
    """A topic with its subject, and an extraction of it."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, registry: SchemaRegistryServer, target: Path) -> None:
        self.topic = topic
        self.registry = registry
        self._bootstrap = cluster.bootstrap
        self.extraction = Extraction(
            zookeeper=cluster.zookeeper_connect, group=f"g-{topic}", topics=(topic,), target=str(target),
            value_format="avro", schema_registry=registry.url, session_timeout_ms=4_000,
        )  # fmt: skip

    def avro(self, schema: str, record: Any) -> bytes:
        client = SchemaRegistryClient({"url": self.registry.url})
        context = SerializationContext(self.topic, MessageField.VALUE)
        return bytes(AvroSerializer(client, schema)(record, context))

    def write(self, *values: bytes | None, headers: Any = ()) -> None:
        with BlockingProducer(None, bootstrap_servers=self._bootstrap) as producer:
            for value in values:
                producer.send(self.topic, value, key=b"k", partition=0, headers=headers)

    def dead_letters(self, topic: str) -> list[Any]:
        """The dead letters that read_committed consumers see."""
        with BlockingReader(bootstrap_servers=self._bootstrap, isolation_level="read_committed") as reader:
            home = TopicPartition(topic, 0)
            reader.assign({home: 0})
            return [each for batch in reader.batches(until=reader.end_offsets([home])) for each in batch]


@pytest.fixture
def orders(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, registry: SchemaRegistryServer, tmp_path: Path
) -> Orders:
    return Orders(kafka_zk_cluster, make_topic(), registry, tmp_path / "lake")


def rows(spark: Any, extraction: Extraction, *columns: str) -> list[Any]:  # noqa: F811
    frame = spark.read.parquet(extraction.target)
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def test_each_record_by_its_own_schema_in_the_columns_of_the_newest(spark: Any, orders: Orders) -> None:  # noqa: F811
    old = orders.avro(FIRST_AVRO, {"id": 1, "was": "gone"})
    orders.write(old, orders.avro(NEWER, {"id": 2, "n": 3}), None)
    report = extract(spark, orders.extraction)
    assert (report.records, report.undecodable) == (3, 0)
    found = rows(spark, replace(orders.extraction), "offset", "id", "n", "key")
    assert found == [(0, 1, 7, "k"), (1, 2, 3, "k"), (2, None, None, "k")]
    orders.write(old, UNKNOWN_ID)
    with pytest.raises(Undecodable, match=r"1 of 2 values are not avro of .*: the schema registry has no sche"):
        extract(spark, orders.extraction)
    report = extract(spark, replace(orders.extraction, on_undecodable="keep"))
    assert (report.records, report.undecodable) == (2, 1)
    kept = spark.read.option("mergeSchema", "true").parquet(orders.extraction.target).where("raw_value IS NOT NULL")
    assert [(row.offset, bytes(row.raw_value)) for row in kept.collect()] == [(4, UNKNOWN_ID)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("arrow", "where"), [("true", None), ("true", "true"), ("false", "true")])
def test_avro_whose_logical_types_changed(
    spark: Any, orders: Orders, arrow: str, where: str | None  # noqa: F811
) -> None:
    """The types change in both directions in one batch. Earlier versions failed, or published numbers times 1,000, or
    nulls without Arrow.
    """
    logical = {
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        "day": {"type": "int", "logicalType": "date"},
    }
    plain, at = {"at": "long", "price": "bytes", "day": "int"}, 1_700_000_000_123

    def fields(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        return {f"{side}_{name}": each for side, kinds in (("a", a), ("b", b)) for name, each in kinds.items()}

    first, second = fields(logical, plain), fields(plain, logical)
    ids = [orders.registry.register(f"{orders.topic}-value", _record(each)) for each in (first, second)]
    out = io.BytesIO()
    raw = {"at": at, "price": b"09", "day": 19_000}
    fastavro.schemaless_writer(out, json.loads(_record(fields(plain, plain))), fields(raw, raw))
    orders.write(*(b"\0" + each.to_bytes(4) + out.getvalue() for each in ids))
    name = "spark.sql.execution.pythonUDF.arrow.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, arrow)
    try:
        report = extract(spark, replace(orders.extraction, where=where))
    finally:
        spark.conf.set(name, before)
    assert (report.records, report.undecodable) == (2, 0)
    assert report.writer == ("executors" if where is None else "Spark, because of --where")
    columns = ["unix_millis(b_at)" if each == "b_at" else each for each in second]
    expected = (at, b"09", 19_000, at, Decimal("123.45"), date(2022, 1, 8))
    found = spark.read.parquet(orders.extraction.target).selectExpr(*columns).collect()
    rows = [tuple(bytes(each) if isinstance(each, bytearray) else each for each in row) for row in found]
    assert rows == [expected] * 2


def _record(fields: dict[str, Any]) -> str:
    return json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    )


def test_protobuf_and_json_schema(spark: Any, orders: Orders, tmp_path: Path) -> None:  # noqa: F811
    made = message(SECOND_PROTO, "Order", id=4, state=1)
    value = protobuf(orders.registry, made)
    orders.write(value)
    how = replace(orders.extraction, value_format="protobuf", schema=SECOND_PROTO)
    assert extract(spark, how).records == 1
    assert rows(spark, how, "id", "state", "note") == [(4, "PAID", None)]
    orders.write(json_value(orders.registry, SECOND_JSON, {"id": 5, "counts": {"a": 1}}))
    how = replace(how, value_format="json-schema", schema=SECOND_JSON, target=str(tmp_path / "json"))
    assert extract(spark, how).records == 1
    [(found, counts)] = rows(spark, how, "id", "counts")
    assert (found, counts) == (5, {"a": 1.0})


def test_dead_letters_are_sent_once_whatever_dies(spark: Any, orders: Orders) -> None:  # noqa: F811
    """A run is killed after its dead letters are sent and before its offsets move."""
    good = orders.avro(FIRST_AVRO, {"id": 1, "was": ""})
    letters = f"{orders.topic}-dead"
    wanted = replace(orders.extraction, dead_letter_topic=letters)
    orders.write(good, UNKNOWN_ID, b"{}", headers=[("h", b"v")])

    def kill(step: Step, phase: Phase) -> None:
        if (step, phase) == (Step.STAGE, Phase.END):
            raise Killed

    with pytest.raises(Killed):
        extract(spark, wanted, observe=kill)
    report = extract(spark, wanted)
    assert (report.records, report.undecodable, report.lag_after) == (1, 2, 0)
    orders.write(b"{")
    assert extract(spark, wanted).undecodable == 1, "a round of nothing else goes on"
    found = orders.dead_letters(letters)
    assert [each.value for each in found] == [UNKNOWN_ID, b"{}", b"{"]
    assert found[0].key == b"k"
    assert dict(found[0].headers) == {
        "h": b"v",
        TOPIC: orders.topic.encode(),
        PARTITION: b"0",
        OFFSET: b"1",
        REASON: b"the schema registry has no schema 9999",
    }


def test_other_columns_and_rows_by_sql(spark: Any, orders: Orders) -> None:  # noqa: F811
    values = [json.dumps({"a": number}).encode() for number in range(6)]
    orders.write(*values, b"no json", headers=[("h", b"1"), ("h", b"2"), ("i", None)])
    wanted = replace(
        orders.extraction, value_format=None, schema_registry=None, decode="json", schema="a INT",
        on_undecodable="null", include=("headers", "timestamp_type"), where="a > 2 AND headers['h'] = X'32'",
        select="offset, a * 10 AS tens, timestamp_type, map_keys(headers) AS names, a % 2 AS odd",
        partition_by=("odd",),
    )  # fmt: skip
    faults: dict[str, dict[str, Any]] = {
        "--where: .*`b`": {"where": "b > 2"}, "--select: ": {"select": "a,"}, "odd": {"select": "a"},
    }  # fmt: skip
    for told, how in faults.items():
        with pytest.raises(WronglyAsked, match=told):
            extract(spark, replace(wanted, **how))
    report = extract(spark, wanted)
    assert (report.records, report.undecodable, report.lag_after) == (3, 1, 0)
    found = rows(spark, wanted, "offset", "tens", "timestamp_type", "odd", "names")
    assert found == [(n, 10 * n, "CreateTime", n % 2, ["h", "i"]) for n in (3, 4, 5)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("how", "counts"),
    [
        ({"select": "offset, explode(sequence(0, a)) AS each"}, (6, 0)),
        ({"where": "a = 1 AND a = 2", "dead_letter_topic": "LETTERS"}, (0, 1)),
    ],
)
def test_what_is_written_is_counted_whatever_sql_makes_of_it(
    spark: Any, orders: Orders, make_topic: MakeTopic, how: dict[str, Any], counts: tuple[int, int]  # noqa: F811
) -> None:
    """Spark skips work on data that it can prove to be empty, including the code that counts the records."""
    orders.write(*(json.dumps({"a": number}).encode() for number in range(3)))
    if counts[1]:
        orders.write(b"no json")
    if "dead_letter_topic" in how:
        how = {**how, "dead_letter_topic": make_topic()}
    plain = replace(orders.extraction, value_format=None, schema_registry=None, decode="json", schema="a INT")
    report = extract(spark, replace(plain, **how))
    assert (report.records, report.undecodable, report.lag_after) == (*counts, 0)
    found = verify(HadoopFiles(spark), lambda paths: int(spark.read.parquet(*paths).count()), f"file:{plain.target}")
    assert (found.records, found.faults) == (counts[0], ())
