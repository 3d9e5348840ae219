"""Keys of every format: which ones are undecodable, and which programs read their Parquet files."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.errors import Undecodable, WronglyAsked
from kafka_zk.spark_jobs.extraction import decoding
from kafka_zk.spark_jobs.extraction.dead_letters import OFFSET, REASON
from kafka_zk.spark_jobs.extraction.job import extract, plan
from kafka_zk.spark_jobs.extraction.keys import keys
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.source.schema import COLUMNS
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.spark.sessions import spark  # noqa: F401
from tests.integration.spark.test_wire_formats import Orders
from tests.schema_registry import SchemaRegistryServer, schema_registry

pytestmark = [pytest.mark.integration, pytest.mark.spark]
HASH = bytes(range(120, 140))
LONGS = [number.to_bytes(8) for number in (1, 2**62, 3)]


def write(cluster: EmbeddedCluster, topic: str, given: list[bytes | None]) -> None:
    with BlockingProducer(None, bootstrap_servers=cluster.bootstrap) as producer:
        for number, key in enumerate(given):
            producer.send(topic, b'{"key": %d}' % number, key=key, partition=0)
        producer.flush()


@pytest.fixture
def asked(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path) -> Extraction:
    topic = make_topic()
    return Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect, group=f"g-{topic}", topics=(topic,),
        target=str(tmp_path / "lake"), decode="json", schema="key INT", metadata_prefix="_kafka_",
    )  # fmt: skip


JSON_KEYS = [b'{"id":7}', b'{"id":200}', b"", b"{", b"\xff", None]


@pytest.mark.parametrize(
    ("key_format", "key_schema", "given", "wanted", "reason"), [
        ("string", None, [b"a", "ü".encode(), b"\xff", None], ["a", "ü", None, None], "the key is not UTF-8 text"),
        ("long", None, [*LONGS, b"7", None], [1, 2**62, 3, None, None],
         "the key is not of type long: 1 bytes are not a valid long, which has 8"),
        ("json", "id TINYINT", JSON_KEYS, [(7,), None, None, None, None, None],
         "the key is not json: does not come back as written: id"),
        ("avro", '"long"', [b"\2", b"\0\0\0\0\1\4", b"\2\2", None], [1, 2, None, None], "the key is not avro"),
    ],
)  # fmt: skip
def test_which_keys_are_undecodable(
    spark: Any, key_format: str, key_schema: str | None, given: list[bytes | None], wanted: list[Any], reason: str  # noqa: F811
) -> None:
    rows = [(key, b"v" if number else None, "t", 0, number, None, 0) for number, key in enumerate(given)]
    frame = spark.createDataFrame(rows, COLUMNS)
    judged = decoding.decoded(
        frame, "string", None, "keep", "parquet", keys=keys(key_format, key_schema, None), prefix="k_"
    )
    found = judged.orderBy("k_offset").collect()
    assert [row.k_key if row.k_key is None or not key_schema or key_format == "avro" else tuple(row.k_key)
            for row in found] == wanted  # fmt: skip
    misfits = [key is not None and content is None for key, content in zip(given, wanted, strict=True)]
    assert [row[decoding.KEY_MISFIT] for row in found] == misfits
    assert [row[decoding.FITS] for row in found] == [None if n == 0 else not misfit for n, misfit in enumerate(misfits)]
    assert [row.raw_key for row in found] == [key if bad else None for key, bad in zip(given, misfits, strict=True)]
    assert next(row[decoding.REASON] for row in found if row[decoding.KEY_MISFIT]) == reason


def readers() -> Mapping[str, Callable[[str], list[Any]]]:
    """Functions that return the column of keys in a folder's Parquet files, by program."""
    name = "_kafka_key"
    return {
        "duckdb": lambda folder: duckdb.execute(f"SELECT {name} FROM '{folder}/range=*/*.parquet'").df()[name].tolist(),
        "polars": lambda folder: pl.read_parquet(f"{folder}/range=*/*.parquet")[name].to_list(),
        "pyarrow": lambda folder: ds.dataset(folder, format="parquet").to_table()[name].to_pylist(),
        "pandas": lambda folder: pd.read_parquet(folder)[name].tolist(),
    }


def plain(key: Any) -> Any:
    if isinstance(key, bytes | bytearray):
        return bytes(key)
    return key["id"] if isinstance(key, dict) else key


@pytest.mark.parametrize(
    ("key_format", "key_schema", "given", "wanted"), [
        ("bytes", None, [HASH, b"\xff\xfe"], [HASH, b"\xff\xfe"]),
        (None, None, [b"a", "ü".encode()], ["a", "ü"]),
        ("long", None, LONGS, [1, 2**62, 3]),
        ("json", "id BIGINT", [b'{"id":7}', b'{"id":8}'], [7, 8]),
    ],
)  # fmt: skip
def test_every_reader_reads_a_folder_of_keys(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, asked: Extraction, key_format: str | None,  # noqa: F811
    key_schema: str | None, given: list[bytes | None], wanted: list[Any],
) -> None:  # fmt: skip
    write(kafka_zk_cluster, asked.topics[0], given)
    wish = replace(asked, key_format=key_format, key_schema=key_schema)
    report = extract(spark, wish)
    assert (report.records, report.undecodable) == (len(given), 0)
    for name, keys_of in readers().items():
        assert sorted(map(plain, keys_of(asked.target))) == sorted(wanted), name
    rows = spark.read.parquet(asked.target).orderBy("_kafka_offset").collect()
    assert [plain(row._kafka_key.asDict() if key_schema else row._kafka_key) for row in rows] == wanted
    assert [row.key for row in rows] == list(range(len(given))), "a field with the name of a column"


def test_a_binary_key_is_undecodable_as_text_and_the_format_stays(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, asked: Extraction  # noqa: F811
) -> None:
    write(kafka_zk_cluster, asked.topics[0], [b"a", HASH, None])
    with pytest.raises(Undecodable, match=r"^1 keys are not UTF-8 text .* offset 1 of .*: give their format with"):
        extract(spark, asked)
    kept = replace(asked, on_undecodable="keep")
    assert extract(spark, kept).undecodable == 1
    rows = spark.read.parquet(asked.target).orderBy("_kafka_offset").collect()
    assert [(row._kafka_key, row.key, row.raw_value, row.raw_key) for row in rows] == [
        ("a", 0, None, None), (None, 1, None, HASH), (None, 2, None, None)
    ]  # fmt: skip
    other = replace(kept, key_format="bytes", target=f"{asked.target}-2")
    runs: list[Callable[[], Any]] = [lambda: extract(spark, other), lambda: plan(other)]
    for run in runs:
        with pytest.raises(WronglyAsked, match=f"group {asked.group} extracts its keys as string, not as bytes"):
            run()
    write(kafka_zk_cluster, asked.topics[0], [b"b"])
    raw = replace(asked, decode=None, schema=None, metadata_prefix="", target=f"{asked.target}-raw")
    assert extract(spark, raw).records == 1, "nothing is decoded"
    with pytest.raises(WronglyAsked, match="extracts its keys as string"):
        plan(other)


def test_letters_of_undecodable_keys(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path  # noqa: F811
) -> None:
    with schema_registry() as registry:
        orders = Orders(kafka_zk_cluster, make_topic(), registry, tmp_path / "lake")
        _with_avro_keys(spark, kafka_zk_cluster, orders, make_topic(), registry)


def _with_avro_keys(
    spark: Any, cluster: EmbeddedCluster, orders: Orders, letters: str, registry: SchemaRegistryServer  # noqa: F811
) -> None:
    context = SerializationContext(orders.topic, MessageField.KEY)
    serializer = AvroSerializer(SchemaRegistryClient({"url": registry.url}), '"string"')
    write(cluster, orders.topic, [bytes(serializer("x", context)), b"not framed"])
    wish = replace(
        orders.extraction, value_format=None, decode="json", schema="key INT", key_format="avro",
        metadata_prefix="_kafka_", dead_letter_topic=letters,
    )  # fmt: skip
    report = extract(spark, wish)
    assert (report.records, report.undecodable) == (1, 1)
    assert [row._kafka_key for row in spark.read.parquet(wish.target).collect()] == ["x"]
    (letter,) = orders.dead_letters(letters)
    headers = dict(letter.headers)
    assert (letter.key, headers[OFFSET]) == (b"not framed", b"1")
    assert headers[REASON] == b"the key is not avro: no schema id: the first byte is 110, not 0"
