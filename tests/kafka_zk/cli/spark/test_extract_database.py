"""``kafka-zk extract --topic-pattern`` up to the point where it asks the cluster, and what it says in the end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.cli.main import run
from kafka_zk.spark_jobs.errors import ExtractionFailed, GroupBusy
from kafka_zk.spark_jobs.extraction.database import run as driver
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report

ARGUMENTS = ["extract", "--zookeeper", "127.0.0.1:1", "--group", "g", "--topic-pattern", r"shop\..*"]
INTO_TABLES = [*ARGUMENTS, "--to", "lake/{table}"]
TOPICS = ["shop.public.lines", "shop.public.orders", "shop.message", "other"]
Work = Callable[[Extraction], Report]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([*INTO_TABLES, "--topic", "t"], "give --topic or --topic-pattern, not both"),
        (["extract", "--zookeeper", "z", "--group", "g", "--to", "lake"], "give --topic, or --topic-pattern for"),
        ([*ARGUMENTS, "--to", "lake"], "'lake' is the same for all topics"),
        ([*ARGUMENTS, "--to", "{tables}"], "--to: there is no placeholder {tables}, only {table}"),
        ([*INTO_TABLES, "--topic-pattern", "("], "--topic-pattern: '('"),
        ([*INTO_TABLES, "--cdc", "debezium"], "--cdc merges into --format delta or iceberg only"),
        ([*INTO_TABLES, "--cdc", "debezium", "--schema", "@{table}.sql"], "--cdc merges into --format"),
        ([*INTO_TABLES, "--decode", "json"], "--decode json needs --schema"),
        ([*INTO_TABLES, "--every", "30s"], "--every is for --topic"),
        ([*ARGUMENTS, "--to", "{table}", "--format", "iceberg"], "give CATALOG.NAMESPACE.TABLE"),
        (["extract", "--zookeeper", "z", "--group", "g", "--topic", "t", "--to", "lake", "--schema", "@{table}.sql"],
         "--schema: a file for each table is for --topic-pattern"),
    ],
)  # fmt: skip
def test_a_wrong_use_is_one_sentence_and_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("nothing is to be started or asked")

    monkeypatch.setattr("kafka_zk.cli.spark.extract_database.extract_database", forbidden)
    assert run(arguments) == 2
    errors = capsys.readouterr().err
    assert told in errors.splitlines()[-1] and "Traceback" not in errors


@pytest.fixture
def extraction_does(monkeypatch: pytest.MonkeyPatch) -> Callable[[Work], None]:
    """``extraction_does(work)``: replace the extraction of a topic by ``work``, and the cluster by TOPICS."""

    def extract_database(asked: Any, single: Any, start_spark: Any, **more: Any) -> Any:
        spark = driver.SharedSpark(start_spark)

        def extraction_of(table: Any) -> Any:
            return asked.extraction(table, None)

        return driver.extract_topics(asked.tables(TOPICS), asked, extraction_of, single, spark, **more)

    def replace(work: Work) -> None:
        monkeypatch.setattr("kafka_zk.cli.spark.extract_database.extract_database", extract_database)
        monkeypatch.setattr(
            "kafka_zk.spark_jobs.extraction.job.extract", lambda _, extraction, **more: work(extraction)
        )

    return replace


def test_the_table_has_each_topic_and_why_one_is_left_out(
    extraction_does: Callable[[Work], None], capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Extraction] = []

    def work(extraction: Extraction) -> Report:
        asked.append(extraction)
        return Report((), 5, 0, ("published",), "nothing", seconds=2.0)

    extraction_does(work)
    assert run([*INTO_TABLES, "--max-records", "9"]) == 0
    assert [(each.target, each.group, each.max_records) for each in asked] == [
        ("lake/lines", "g.shop.public.lines", 9), ("lake/orders", "g.shop.public.orders", 9)
    ]  # fmt: skip
    out = [line.split(None, 4) for line in capsys.readouterr().out.splitlines()]
    assert out == [
        ["TOPIC", "TABLE", "RECORDS", "SECONDS", "RESULT"],
        ["shop.message", "-", "-", "-", "left out: logical decoding messages of PostgreSQL"],
        ["shop.public.lines", "lake/lines", "5", "2.0", "extracted"],
        ["shop.public.orders", "lake/orders", "5", "2.0", "extracted"],
    ]


@pytest.mark.parametrize(("error", "code"), [(ExtractionFailed("no"), 1), (GroupBusy("c is a live member"), 3)])
def test_a_topic_that_fails_is_in_the_report_and_decides_the_exit_code(
    extraction_does: Callable[[Work], None], error: Exception, code: int, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:  # fmt: skip
    def work(extraction: Extraction) -> Report:
        if extraction.topics == ("shop.public.lines",):
            raise error
        return Report((), 5, 0, ("published",), "nothing")

    extraction_does(work)
    lineage = tmp_path / "lineage"
    assert run([*INTO_TABLES, "--json", "--openlineage", str(lineage)]) == code
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    found = {each["topic"]: (each["result"], each["reason"]) for each in document["topics"]}
    assert found["shop.public.orders"] == ("extracted", None) and document["records"] == 5
    assert found["shop.public.lines"] == ("failed" if code == 1 else "busy", str(error))
    assert captured.err.splitlines()[-1].startswith("Error: 3 topics: 1 extracted, 1 left out, 1 ")
    kinds = [json.loads(line)["eventType"] for line in lineage.read_text().splitlines()]
    assert kinds == ["START", "FAIL", "START", "COMPLETE"]


def test_an_error_of_spark_is_a_sentence_of_its_topic(
    extraction_does: Callable[[Work], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def work(extraction: Extraction) -> Report:
        raise RuntimeError("a wheel came off\n\tat org.apache.spark")

    extraction_does(work)
    assert run([*INTO_TABLES, "--json"]) == 1
    reasons = [each["reason"] for each in json.loads(capsys.readouterr().out)["topics"]]
    assert reasons[1].startswith("the Spark job failed: a wheel came off; run it again")
