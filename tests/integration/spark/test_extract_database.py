"""All topics of a database with a real Spark and real brokers."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.cdc.given_types import with_ends
from kafka_zk.spark_jobs.cdc.row_schemas import of_json_value
from kafka_zk.spark_jobs.errors import ExtractionFailed, WronglyAsked
from kafka_zk.spark_jobs.extraction import job
from kafka_zk.spark_jobs.extraction.database.name_templates import NameTemplate
from kafka_zk.spark_jobs.extraction.database.newest_value import newest_value
from kafka_zk.spark_jobs.extraction.database.results import Outcome, TopicResult
from kafka_zk.spark_jobs.extraction.database.run import Database, extract_database
from kafka_zk.spark_jobs.extraction.database.table_schemas import TableSchemas
from kafka_zk.spark_jobs.extraction.merge import cdc_options, statements
from kafka_zk.spark_jobs.extraction.merge.fold_job import FoldJob, refusals
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings, ClusterClient
from tests.integration.processes import kafka_zk
from tests.integration.spark.sessions import spark  # noqa: F401
from tests.spark_jobs.cdc import recordings

pytestmark = pytest.mark.integration

GROUP = "databases"


def write(cluster: EmbeddedCluster, topics: Mapping[str, list[bytes | None]], partitions: int = 2) -> None:
    with BlockingAdmin(None, bootstrap_servers=cluster.bootstrap) as admin:
        for topic in topics.keys() - set(admin.list_topics()):
            admin.create_topic(topic, partitions, 1)
    with BlockingProducer(None, bootstrap_servers=cluster.bootstrap) as producer:
        for topic, values in topics.items():
            for number, value in enumerate(values):
                producer.send(topic, value, key=b"k", partition=number % partitions)
        producer.flush()


def rows(count: int) -> list[bytes | None]:
    return [b'{"a": %d}' % number for number in range(count)]


class Killed(BaseException):
    """Raised where the process ends."""


def kill_before_publishing(step: Step, phase: Phase) -> None:
    if (step, phase) == (Step.PUBLISH, Phase.BEGIN):
        raise Killed


@pytest.mark.weekly
@pytest.mark.spark
def test_a_database_has_a_table_for_each_topic_whatever_happens_to_one(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, tmp_path: Path  # noqa: F811
) -> None:
    tables: dict[str, list[bytes | None]] = {"lines": rows(4), "orders": rows(7), "broken": [b"no JSON"], "empty": []}
    write(kafka_zk_cluster, {f"whole.public.{name}": values for name, values in tables.items()})
    write(kafka_zk_cluster, {"whole.transaction": rows(1), "whole": rows(1)})
    one = Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect, group=GROUP, topics=("t",), target="t", decode="json",
        schema="a INT",
    )  # fmt: skip
    asked = Database(pattern=r"whole\..*", one=one, target=NameTemplate(f"{tmp_path}/{{schema}}/{{table}}", "--to"))
    killed: list[str] = []

    def killed_once(session: Any, extraction: Extraction) -> Report:
        if extraction.topics == ("whole.public.orders",) and not killed:
            killed.append("orders")
            return job.extract(session, extraction, observe=kill_before_publishing)
        return job.extract(session, extraction)

    def run() -> dict[str, TopicResult]:
        found = extract_database(asked, killed_once, lambda: spark, explain=str, note=lambda _: None)
        return {each.topic.removeprefix("whole."): each for each in found}

    with pytest.raises(Killed):
        run()
    write(kafka_zk_cluster, {"whole.public.new": rows(3), "whole.public.lines": rows(1)})
    found = run()
    assert {name: each.outcome for name, each in found.items()} == {
        "public.broken": Outcome.FAILED,
        "public.empty": Outcome.NOTHING_NEW,
        "public.lines": Outcome.EXTRACTED,
        "public.new": Outcome.EXTRACTED,
        "public.orders": Outcome.EXTRACTED,
        "transaction": Outcome.LEFT_OUT,
    }
    assert found["public.broken"].reason.startswith("none of the 1 values is JSON that matches the schema")
    counts = {path.name: spark.read.parquet(str(path)).count() for path in (tmp_path / "public").iterdir()
              if list(path.glob("range=*"))}  # fmt: skip
    assert counts == {"lines": 5, "new": 3, "orders": 7}


@pytest.mark.spark
def test_events_with_derived_columns_are_folded_into_rows_of_all_types(spark: Any) -> None:  # noqa: F811
    records = [line for line in recordings.lines("mariadb", "schema") if line["topic"] == "my_schema.shop.types"]
    text = of_json_value(next(line["value"].encode() for line in reversed(records) if line["value"] is not None))
    assert text is not None
    text = with_ends(text, dict.fromkeys(range(5), 0))  # all records are checked for columns that it lacks
    one = Extraction(
        zookeeper="z", group=GROUP, topics=("t",), target="t", format="delta", cdc="debezium", schema=text
    )  # fmt: skip
    staged = spark.createDataFrame(
        [
            (line["topic"], line["partition"], line["offset"], recordings.part(line, "key"),
             recordings.part(line, "value"), {name: value.encode() for name, value in line["headers"]})
            for line in records
        ],
        "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY, headers MAP<STRING, BINARY>",
    )  # fmt: skip
    table = spark.createDataFrame([], statements.table_ddl(cdc_options.types(one)))
    deleted = spark.createDataFrame([], statements.DELETED_DDL)
    with FoldJob(spark, one).folded(staged, table, deleted):
        found = [row for row in spark.table(statements.RESULTS).collect() if row.lives]
    assert {str(row.id) for row in found} == {row["id"] for row in recordings.expected("mariadb", "types")}
    narrow = replace(one, schema=with_ends('{"fields": [{"type": "int32", "field": "id"}]}', {}))
    told = r"the column .* is newer than the columns of this run: run it again"
    with (
        pytest.raises(ExtractionFailed, match=told),
        refusals("t"),
        FoldJob(spark, narrow).folded(staged, table, deleted),
    ):
        spark.table(statements.RESULTS).collect()


def test_columns_come_from_the_newest_record_with_a_value(kafka_zk_cluster: EmbeddedCluster) -> None:
    recorded = [recordings.part(line, "value") for line in recordings.lines("postgres", "schema")
                if line["topic"] == "pg_schema.shop.orders"]  # fmt: skip
    write(kafka_zk_cluster, {
        "derived.shop.orders": [*recorded, *[None] * 300], "derived.shop.plain": rows(1), "derived.shop.none": [None],
        "derived.shop.avro": [b"\0\0\0\0\1x"], "derived.shop.empty": [],
    }, partitions=1)  # fmt: skip
    settings = ClientSettings(kafka_zk_cluster.bootstrap)
    with ClusterClient(settings) as brokers:
        newest = newest_value("derived.shop.orders", brokers).value
        assert newest == next(value for value in reversed(recorded) if value is not None)
        schemas = TableSchemas(brokers, None, None)
        of_orders = schemas.of_events("derived.shop.orders")
        assert of_orders is not None and '"field":"order_no"' in of_orders
        assert schemas.of_events("derived.shop.empty") is None
        for name, told in (
            ("plain", "the JSON in topic derived.shop.plain has no schemas"),
            ("none", "no record of topic derived.shop.none has a value"),
        ):
            with pytest.raises(WronglyAsked, match=f"{told}.*: give the tables' columns in files, with --schema"):
                schemas.of_events(f"derived.shop.{name}")


def test_the_command_shows_which_topic_becomes_which_table(kafka_zk_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    (schemas / "given.sql").write_text("a INT")
    write(kafka_zk_cluster, {
        "shown.shop.given": rows(2), "shown.shop.plain": rows(1), "shown.message": rows(1), "shown.x.given": rows(1),
    })  # fmt: skip
    there = ("--zookeeper", kafka_zk_cluster.zookeeper_connect, "--group", "shown", "--format", "delta", "--dry-run")
    asked = (*there, "--topic-pattern", r"shown\.(shop\.)?\w+", "--to", f"{tmp_path}/{{table}}", "--cdc", "debezium")
    told = kafka_zk("extract", *asked, "--schema", f"@{schemas}/{{table}}.sql", "--json", timeout_s=100)
    assert told.returncode == 1, told.stderr
    found = {each["topic"]: each for each in json.loads(told.stdout)["topics"]}
    assert {topic: (each["result"], each["records"], each["table"]) for topic, each in found.items()} == {
        "shown.message": ("left out", 0, None),
        "shown.shop.given": ("planned", 2, f"{tmp_path}/given"),
        "shown.shop.plain": ("failed", 0, f"{tmp_path}/plain"),
    }
    assert found["shown.shop.plain"]["reason"].endswith(f"give the table's columns in {schemas}/plain.sql")
    assert told.stderr.splitlines()[-1] == "Error: 3 topics: 1 planned, 1 left out, 1 failed"
    assert not (tmp_path / "given").exists()
