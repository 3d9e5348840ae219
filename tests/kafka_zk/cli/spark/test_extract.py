"""``kafka-zk extract`` up to the point where it needs Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from kafka_zk.cli.main import run
from kafka_zk.spark_jobs.errors import ExtractionFailed, ForeignCommit, GroupBusy, SourceError
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report

ARGUMENTS = ["extract", "--zookeeper", "127.0.0.1:1", "--group", "g", "--topic", "t", "--to", "lake"]


JSON_SCHEMA = json.dumps(StructType([StructField("l", ArrayType(IntegerType()))]).jsonValue())
AVRO_SCHEMA = '{"type":"record","name":"R","fields":[{"name":"offset","type":"long"}]}'


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test fails if the command starts Spark or connects to a server."""

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("nothing is to be started or asked")

    monkeypatch.setattr("kafka_zk.spark_jobs.session.spark_session", forbidden)
    monkeypatch.setattr("kafka_zk.registry.client.kazoo_blocking.KazooBlockingClient.start", forbidden)


def test_without_spark_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "Spark needs numba: pip install 'kafka-zk[spark]'"
    monkeypatch.setattr("kafka_zk.cli.spark.extract.absent_packages", lambda: told)
    assert run(ARGUMENTS) == 1
    assert capsys.readouterr().err == f"Error: {told}\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--format", "csv"], "CSV contains only text"),
        (["--decode", "json"], "--decode json needs --schema"),
        (["--schema", "@/nowhere/schema"], "/nowhere/schema: No such file"),
        (["--decode", "string", "--schema", "a INT"], "--schema is for --decode json and avro"),
        (["--decode", "avro", "--schema", "{"], "--schema is not a valid Avro schema"),
        (["--group", "a/b"], "--group: 'a/b' is not valid: use letters"),
        (["--group", ""], "--group: '' is not valid: use letters"),
        (["--group", "."], "--group: '.' is not valid: use letters"),
        (["--group", "a b"], "--group: 'a b' is not valid: use letters"),
        (["--to", ""], "--to must not be empty"),
        (["--until", "yesterday"], "'yesterday' is neither milliseconds nor a time"),
        (["--max-records", "0"], "--max-records"),
        (["--from", "5"], "--from needs --until with a later time"),
        (["--from", "5", "--until", "5"], "--from needs --until with a later time"),
        (["--from", "1969-12-31T00:00Z", "--until", "6"], "--from must not be before 1970"),
        (["--from", "5", "--until", "6", "--every", "30s"], "--until is for one run"),
        (["--master", "loca[2]"], "--master: Spark knows no 'loca[2]', only local"),
        (["--conf", "spark.master=mesos://h:5050"], "Spark knows no 'mesos://h:5050'"),
        (["--master", "spark://127.0.0.1:1"], "no Spark master responds (127.0.0.1:1: Connection refused)"),
        (["--to", f"file://{__file__}"], "is a file, not a folder"),
        (["--on-undecodable", "keep"], "--on-undecodable keep is for --decode"),
        (["--every", "30"], "'30' is not an interval such as 30s, 5m or 1h"),
        (["--every", "30s", "--dry-run"], "--dry-run is for one run"),
        (["--every", "30s", "--until", "0"], "--until is for one run"),
        (["--metrics-port", "9404"], "--metrics-port is for --every"),
        (["--value-format", "avro"], "--value-format and --schema-registry must be given together"),
        (["--value-format", "xml"], "'xml' is not one of"),
        (["--value-format", "avro", "--schema-registry", "http://h", "--decode", "json"], "(without), not both"),
        (["--dead-letter-topic", "d"], "--dead-letter-topic is for --decode, --value-format and --key"),
        (["--key-format", "text"], "'text' is not one of 'bytes', 'string', 'short'"),
        (["--key-format", "json"], "--key-format json needs --key-schema, such as 'id BIGINT'"),
        (["--key-format", "avro"], "--key-format avro needs --schema-registry, or --key-schema"),
        (["--key-format", "protobuf"], "--key-format protobuf needs --schema-registry"),
        (["--key-schema", "id INT"], "--key-schema is for --key-format json, avro, protobuf, json-schema"),
        (["--key-schema", "@/no/such"], "/no/such: No such file or directory"),
        (["--key-format", "avro", "--key-schema", "{"], "--key-schema is not a valid Avro schema"),
        (["--schema-registry", "http://h"], "--schema-registry is for --value-format, and for --key-format avro"),
        (["--metadata-prefix", "a b"], "--metadata-prefix: 'a b' is not a name, such as _kafka_"),
        (["--dead-letter-topic", "t", "--decode", "string"], "must not be an extracted topic"),
        (["--include", "header"], "'header' is not one of"),
        (["--on-undecodable", "drop"], "'drop' is not one of 'fail', 'null', 'keep'"),
        (["--to", "s3://bucket/lake"], "Hadoop has no file system s3://, only s3a://"),
        (["--format", "iceberg", "--to", "lake"], "give CATALOG.NAMESPACE.TABLE"),
        (["--merge-schema"], "files have no common schema"),
        (["--widen", "--format", "json"], "json files have no types"),
        (["--target-file-size", "0"], "--target-file-size"),
        (["--target-file-size", "64", "--format", "delta"], "a table has its own property, delta.targetFileSize"),
        (["--partition-by", "nope"], "--partition-by: there is no column nope, only key, value, topic"),
        (["--decode", "json", "--schema", '{"type": "struct"}'], "neither DDL nor the JSON of a Spark StructType"),
        (["--decode", "json", "--schema", JSON_SCHEMA, "--format", "csv"], "l is array<int>, which CSV cannot store"),
        (["--decode", "avro", "--schema", AVRO_SCHEMA], "the field offset has the same name as a column of the source"),
    ],
)
def test_a_wrong_use_is_one_sentence_and_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], no_spark: None
) -> None:
    assert run([*ARGUMENTS, *arguments]) == 2
    errors = capsys.readouterr().err
    assert told in errors.splitlines()[-1] and "Traceback" not in errors


@pytest.fixture
def extraction_does(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``extraction_does(work)``: replace the run by ``work``, without Spark."""

    def replace(work: Any) -> None:
        monkeypatch.setattr(
            "kafka_zk.spark_jobs.extraction.job.extract", lambda _, extraction, **more: work(extraction)
        )

    return replace


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(GroupBusy("c is a live member"), 3), (ForeignCommit("somebody has written"), 4), (ExtractionFailed("no"), 1)],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_who_was_in_the_way_is_an_exit_code_and_one_sentence(
    extraction_does: Any, error: SourceError, exit_code: int, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(extraction: Extraction) -> None:
        raise error

    extraction_does(fail)
    assert run([*ARGUMENTS, *more]) == exit_code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"Error: {error}\n")


def test_a_run_that_is_short_of_what_was_asked_for_is_exit_code_5(
    extraction_does: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report goes to stdout, whose last line schedulers read."""
    extraction_does(lambda _: Report((), 7, 0, ("file:/lake/range=t",), "nothing", short=1234))
    assert run([*ARGUMENTS, "--json"]) == 5
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (document["records"], document["short"]) == (7, 1234)
    told = "Error: 1,234 requested offsets are not extracted, because transactions are open: run the command again"
    assert captured.err.splitlines()[-1] == told
    extraction_does(lambda _: Report((), 7, 0, ("file:/lake/range=t",), "nothing"))
    assert run([*ARGUMENTS, "--json"]) == 0


def test_waits_are_given_in_seconds_and_sizes_in_mebibytes(extraction_does: Any) -> None:
    asked: list[Extraction] = []

    def look(extraction: Extraction) -> None:
        asked.append(extraction)
        raise GroupBusy("c is a live member")

    extraction_does(look)
    assert run([*ARGUMENTS, "--wait", "2.5", "--target-file-size", "64"]) == run(ARGUMENTS) == 3
    assert [(each.wait_ms, each.target_file_bytes) for each in asked] == [(2500, 64 << 20), (0, None)]


BROKERS = ["extract", "--bootstrap-server", "127.0.0.1:1", "--group", "g", "--topic", "t", "--to", "lake"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (BROKERS, "--bootstrap-server needs --format delta"),
        ([*BROKERS, "--format", "delta", "--zookeeper", "127.0.0.1:1"], "give --zookeeper, or --bootstrap-server"),
        ([*BROKERS, "--format", "delta", "--every", "30s"], "--every needs --zookeeper"),
        (["extract", "--group", "g", "--topic", "t", "--to", "lake"], "give --zookeeper, or --bootstrap-server"),
    ],
)
def test_a_wrong_place_of_the_offsets_is_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], no_spark: None
) -> None:
    assert run(arguments) == 2
    assert told in capsys.readouterr().err


def test_brokers_on_the_command_line_take_the_place_of_a_zookeeper_in_the_environment(
    extraction_does: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Extraction] = []

    def look(extraction: Extraction) -> Report:
        asked.append(extraction)
        return Report((), 0, 0, (), "nothing")

    extraction_does(look)
    monkeypatch.setenv("KAFKA_ZK_ZOOKEEPER", "127.0.0.1:2181")
    assert run([*BROKERS, "--format", "delta"]) == run(ARGUMENTS) == 0
    assert [(each.zookeeper, each.bootstrap_servers) for each in asked] == [
        ("", "127.0.0.1:1"),
        ("127.0.0.1:1", None),
    ]


def test_a_run_and_its_failure_are_told_as_lineage(extraction_does: Any, tmp_path: Path) -> None:
    extraction_does(lambda _: Report((), 0, 0, (), "nothing"))
    to_file = ["--openlineage", str(tmp_path / "lineage")]
    assert run([*ARGUMENTS, *to_file]) == 0

    def fail(extraction: Extraction) -> None:
        raise ExtractionFailed("no")

    extraction_does(fail)
    assert run([*ARGUMENTS, *to_file]) == 1
    events = [json.loads(line) for line in (tmp_path / "lineage").read_text().splitlines()]
    assert [each["eventType"] for each in events] == ["START", "COMPLETE", "START", "FAIL"]
    ids = [each["run"]["runId"] for each in events]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    assert events[3]["run"]["facets"]["errorMessage"]["message"] == "no"
