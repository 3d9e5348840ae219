"""``kafka-zk extract`` with a real Spark, as a person runs it; tests/soak/test_extraction_kill.py kills it."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyspark
import pytest

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.errors import Undecodable, WronglyAsked
from kafka_zk.spark_jobs.extraction import decoding
from kafka_zk.spark_jobs.extraction.job import extract, plan
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.session import prepare_environment
from kafka_zk.spark_jobs.source.schema import COLUMNS
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.processes import ROOT, kafka_zk
from tests.integration.spark.sessions import LOCAL, SMALL, spark  # noqa: F401

pytestmark = [pytest.mark.integration, pytest.mark.spark]


PRICE: Any = {
    "type": "record",
    "name": "Price",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}


def price(number: int) -> bytes:
    out = io.BytesIO()
    record = {"name": "odd" if number % 2 else "even", "price": Decimal(number) / 4}
    fastavro.schemaless_writer(out, PRICE, record)
    return out.getvalue()


def write(cluster: EmbeddedCluster, topic: str, values: Sequence[bytes]) -> None:
    with BlockingProducer(None, bootstrap_servers=cluster.bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, key=b"k", partition=number % 2 if len(values) > 1 else 0)
        producer.flush()


def conf() -> list[str]:
    return [f"--conf={name}={value}" for name, value in SMALL.items()]


def run_extract(cluster: EmbeddedCluster, topic: str, target: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kafka_zk", "extract", "--zookeeper", cluster.zookeeper_connect, "--group", "lake",
               "--topic", topic, "--to", str(target), "--master", "local[1]", *conf(), *more]  # fmt: skip
    return _run(command)


def submit_extract(
    cluster: EmbeddedCluster, topic: str, target: Path, *more: str
) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]", *conf(),
               str(ROOT / "kafka_zk" / "cli" / "spark" / "extract.py"), "--zookeeper", cluster.zookeeper_connect,
               "--group", "lake", "--topic", topic, "--to", str(target), *more]  # fmt: skip
    return _run(command)


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, **LOCAL, "PYTHONPATH": str(ROOT)}
    prepare_environment(environ)
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=400, check=False)


def test_extract_as_a_person_runs_it_and_spark_submit_goes_on(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    write(kafka_zk_cluster, topic, [b'{"a": %d, "b": "x"}' % number for number in range(20)])
    planned = run_extract(kafka_zk_cluster, topic, tmp_path / "lake", "--dry-run", "--json")
    assert json.loads(planned.stdout)["dry_run"] is True, planned.stderr
    assert not (tmp_path / "lake").exists()
    how = ("--decode", "json", "--schema", "a INT, b STRING", "--partition-by", "b", "--format", "json", "--json")
    done = run_extract(kafka_zk_cluster, topic, tmp_path / "lake", *how)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["records"], [each["lag_after"] for each in report["partitions"]]) == (20, [0, 0])
    assert 0 < report["spark_start_seconds"] < report["seconds"], "the wall time, with the start of Spark"
    told = done.stderr.splitlines()
    assert told[:2] == ["starting Spark", "waiting for Spark to start, until Ctrl-C"]
    assert told[2].startswith("Spark has started, in ")
    lines = [json.loads(line) for path in (tmp_path / "lake").glob("range=*/b=x/*.json") for line in path.open()]
    assert sorted(line["a"] for line in lines) == list(range(20))
    assert {(line["key"], line["topic"]) for line in lines} == {("k", topic)}
    write(kafka_zk_cluster, topic, [b'{"a": 20, "b": "y"}'])
    submitted = submit_extract(kafka_zk_cluster, topic, tmp_path / "lake", *how)
    assert submitted.returncode == 0, submitted.stderr
    report = json.loads(submitted.stdout.splitlines()[-1])
    assert (report["records"], report["lag_before"], report["lag_after"]) == (1, 1, 0)
    (folder,) = report["published"]
    files = Path(folder.removeprefix("file:")).glob("b=y/*.json")
    assert [json.loads(line)["a"] for path in files for line in path.open()] == [20]
    there = ("--zookeeper", kafka_zk_cluster.zookeeper_connect, "--group", "lake", *conf())
    verified = kafka_zk("lake", "verify", "--to", tmp_path / "lake", *there, "--json", timeout_s=200)
    assert verified.returncode == 0, verified.stderr
    found = json.loads(verified.stdout)
    assert (found["folders"], found["records"], found["faults"]) == (2, 21, [])


def test_in_a_notebook_any_number_of_times(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path  # noqa: F811
) -> None:
    """Avro values with a decimal are extracted in two portions; then come new records, then none."""
    topic = make_topic(partitions=2)
    extraction = Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect, group=f"notebook-{topic}", topics=(topic,),
        target=str(tmp_path / "lake"), decode="avro", schema=json.dumps(PRICE), partition_by=("name",), max_records=6,
        on_undecodable="null",
    )  # fmt: skip
    write(kafka_zk_cluster, topic, [price(number) for number in range(10)])
    assert (plan(extraction).lag_before, plan(extraction).lag_after) == (10, 4)
    seen: list[tuple[int, int]] = []
    reports = [extract(spark, extraction, progress=lambda *told: seen.append(told)), extract(spark, extraction)]
    assert seen[-1] == (6, 6)
    write(kafka_zk_cluster, topic, [price(number) for number in range(10, 13)] + [b"no avro"])
    reports += [extract(spark, extraction), extract(spark, extraction)]
    assert [(each.records, each.undecodable) for each in reports] == [(6, 0), (4, 0), (4, 1), (0, 0)]
    assert [len(each.published) for each in reports] == [1, 1, 1, 0]
    rows = spark.read.parquet(extraction.target).collect()
    assert sorted(row.price for row in rows if row.price is not None) == [Decimal(n) / 4 for n in range(13)]
    assert sorted(row.name for row in rows if row.name is not None) == ["even"] * 7 + ["odd"] * 6
    assert len(rows) == 14 and len({(row.partition, row.offset) for row in rows}) == 14


FITTING = [b'{"a":1,"b":"x"}', b'{"b":"y"}', b'{"a":null}', b"{}", b"null", b'{"a":2,"more":[1]}']
MISFITS = [
    b"garbage", b"", b" ", b"5", b"[]", b'[{"a":1},{"a":2}]', b'{"a":1', b'{"a":"no","b":"x"}', b'{"a":1.5}',
    b'{"A":1}', b'{"b":"\xff"}', b"\xff\xfe",
]  # fmt: skip


def test_small_partitions_share_tasks_and_so_it_is_told(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path  # noqa: F811
) -> None:
    """The note tells the number of tasks; each task writes a file."""
    topic = make_topic(partitions=20)
    with BlockingProducer(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        for number in range(40):
            producer.send(topic, b"%d" % number, partition=number % 20)
        producer.flush()
    told: list[str] = []
    extraction = Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect, group=f"g-{topic}", topics=(topic,), target=str(tmp_path / "lake")
    )
    assert extract(spark, extraction, note=told.append).records == 40
    assert told[-1] == "extracting 40 records of 20 partitions, in 10 tasks"
    assert len(list((tmp_path / "lake").glob("range=*/*.parquet"))) == 10


def frame_of(spark: Any, values: Sequence[bytes | None]) -> Any:  # noqa: F811
    rows = [(b"k", value, "t", 0, number, None, 0) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, COLUMNS)


@pytest.mark.parametrize("ddl", ["a INT, b STRING", '{"type":"struct","fields":[{"name":"a","type":"integer",'
                                 '"nullable":true,"metadata":{}},{"name":"b","type":"string","nullable":true,'
                                 '"metadata":{}}]}'], ids=["DDL", "JSON"])  # fmt: skip
def test_which_values_are_json_of_a_schema(spark: Any, ddl: str) -> None:  # noqa: F811
    """A value that would lose something is a misfit. A tombstone has no value to lose."""
    values = [*FITTING, *MISFITS, None]
    rows = decoding.decoded(frame_of(spark, values), "json", ddl, "keep", "parquet").orderBy("offset").collect()
    assert [row[decoding.FITS] for row in rows] == [True] * len(FITTING) + [False] * len(MISFITS) + [None]
    assert [row.raw_value for row in rows] == [None] * len(FITTING) + MISFITS + [None]
    assert [(row.a, row.b) for row in rows[:3]] == [(1, "x"), (None, "y"), (None, None)]
    assert rows[len(FITTING) + 7].b == "x", "what fits is not lost"


def test_after_a_run_that_died_the_next_extracts_what_it_is_asked_for(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path  # noqa: F811
) -> None:
    """The next run asks first for fewer records than the dead run had planned, then for all; up to a timestamp only if
    no transaction is open.
    """
    topic = make_topic(partitions=2)
    write(kafka_zk_cluster, topic, [b"%d" % number for number in range(40)])
    wanted = Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect, group=f"g-{topic}", topics=(topic,), target=str(tmp_path / "lake")
    )

    def dies(step: Step, phase: Phase) -> None:
        if (step, phase) == (Step.STAGE, Phase.END):
            raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        extract(spark, wanted, observe=dies)
    small = replace(wanted, max_records=10)
    promised, done = plan(small), extract(spark, small)
    assert promised.partitions == done.partitions and (done.records, done.lag_after) == (10, 30)
    with pytest.raises(OSError, match="no space"):
        extract(spark, small, observe=dies)
    write(kafka_zk_cluster, topic, [b"a", b"b"])
    until = replace(wanted, until_ms=2**52)
    with BlockingProducer(
        None, bootstrap_servers=kafka_zk_cluster.bootstrap, transactional_id=f"open-{topic}"
    ) as producer:  # fmt: skip
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0)
        producer.flush()
        report = extract(spark, until)
        assert (report.records, report.lag_after, report.short) == (32, 0, 1)
        assert plan(wanted).short == 0, "it ends where committed records do"
        producer.commit_transaction()
    report = extract(spark, until)
    assert (report.records, report.short) == (1, 0)
    assert spark.read.parquet(wanted.target).count() == 43


def test_text_is_utf8(spark: Any) -> None:  # noqa: F811
    values = [b"gr\xc3\xbc\xc3\x9fe", b"", b"\xff", None]
    rows = decoding.decoded(frame_of(spark, values), "string", None, "keep", "csv").orderBy("offset").collect()
    assert [(row.value, row.raw_value) for row in rows] == [("grüße", None), ("", None), (None, "/w=="), (None, None)]


def test_values_that_do_not_fit_stop_the_run_or_are_kept(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path  # noqa: F811
) -> None:
    topic = make_topic(partitions=2)
    write(kafka_zk_cluster, topic, [b'{"a": 1}', b"oops", b'{"a": 2}', b'{"a": "x"}'])
    wanted = Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect, group=f"g-{topic}", topics=(topic,),
        target=str(tmp_path / "lake"), decode="json", schema="a INT",
    )  # fmt: skip
    with pytest.raises(Undecodable, match=f"2 of 4 values are not JSON .* at offset 0 of {topic}-1.*--on-undecodable"):
        extract(spark, wanted)
    with pytest.raises(Undecodable, match="none of the 4 values is JSON that matches the schema"):
        extract(spark, replace(wanted, schema="another STRING", on_undecodable="keep"))
    assert plan(wanted).lag_before == 4, "the offsets have not moved"
    assert not list(tmp_path.glob("lake/range=*"))
    report = extract(spark, replace(wanted, on_undecodable="keep"))
    assert (report.records, report.undecodable, report.lag_after) == (4, 2, 0)
    rows = spark.read.parquet(wanted.target).collect()
    assert sorted((row.a, row.raw_value) for row in rows if row.a) == [(1, None), (2, None)]
    assert sorted(row.raw_value for row in rows if row.raw_value) == [b"oops", b'{"a": "x"}']


def test_what_only_spark_can_judge_is_one_sentence_too(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The exit code is 2, Spark's log is not shown, and no folder was begun. Spark starts because there are new
    records.
    """
    topic = make_topic()
    write(kafka_zk_cluster, topic, [b"{}"])
    done = run_extract(kafka_zk_cluster, topic, tmp_path / "lake", "--decode", "json", "--schema", "a STRNG")
    assert done.returncode == 2, done.stderr
    assert "STRNG" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr and "WARN" not in done.stderr
    assert not (tmp_path / "lake").exists()


def test_columns_that_cannot_be_are_refused_before_anything_is_begun(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path  # noqa: F811
) -> None:
    topic = make_topic()
    write(kafka_zk_cluster, topic, [b"{}"])
    target = tmp_path / "lake"
    for schema, format_name, sentence in (
        ("a STRNG", "parquet", "STRNG"),
        ("ARRAY<INT>", "parquet", "columns are needed, as in 'a INT, b STRING', not array<int>"),
        ("Topic STRING", "parquet", "the field Topic has the same name as a column of the source"),
        ("a ARRAY<INT>", "csv", "a is array<int>, which CSV cannot store"),
    ):
        wanted = Extraction(
            zookeeper=kafka_zk_cluster.zookeeper_connect, group=f"g-{topic}", topics=(topic,), target=str(target),
            decode="json", schema=schema, format=format_name,
        )  # fmt: skip
        with pytest.raises(WronglyAsked, match=re.escape(sentence)):
            extract(spark, wanted)
    assert not target.exists()


@pytest.mark.parametrize(("zookeeper", "sentence"), [("127.0.0.1:1", "no ZooKeeper server"), ("", "there is no topic")])
def test_what_is_not_there_is_told_before_spark_starts(
    kafka_zk_cluster: EmbeddedCluster, tmp_path: Path, zookeeper: str, sentence: str
) -> None:
    address = zookeeper or kafka_zk_cluster.zookeeper_connect
    done = kafka_zk("extract", "--zookeeper", address, "--group", "g", "--topic", "nowhere", "--to", tmp_path / "lake",
                    timeout_s=200)  # fmt: skip
    assert done.returncode == 1
    told = [line for line in done.stderr.splitlines() if not line.startswith("waiting up to 10 s: no response from ")]
    assert len(told) == 1 and told[0].startswith(f"Error: {sentence}")
