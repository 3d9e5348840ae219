"""``kafka-zk extract`` as far as it goes without Spark."""

from typing import Any

import pytest

from kafka_zk.cli.main import run
from kafka_zk.spark_jobs.errors import SourceError
from kafka_zk.spark_jobs.extraction.errors import ExtractionFailed, ForeignCommit, GroupBusy
from kafka_zk.spark_jobs.extraction.planning import Extraction

ARGUMENTS = ["extract", "--zookeeper", "127.0.0.1:1", "--group", "g", "--topic", "t", "--to", "/x"]


def test_without_spark_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "Spark needs numba: pip install 'kafka-zk[spark]'"
    monkeypatch.setattr("kafka_zk.spark_jobs.extract.absent_packages", lambda: told)
    assert run(ARGUMENTS) == 1
    assert capsys.readouterr().err == f"Error: {told}\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--format", "csv"], "CSV holds text"),
        (["--decode", "json"], "--decode json needs --schema"),
        (["--schema", "@/nowhere/schema"], "/nowhere/schema: No such file"),
        (["--decode", "string", "--schema", "a INT"], "--schema is for --decode json and avro"),
        (["--decode", "avro", "--schema", "{"], "--schema is no Avro schema"),
        (["--group", "a/b"], "--group: 'a/b' is no name for a group"),
        (["--group", ""], "--group: '' is no name for a group"),
        (["--group", "."], "--group: '.' is no name for a group"),
        (["--group", "a b"], "--group: 'a b' is no name for a group"),
        (["--to", ""], "the target folder has no name"),
        (["--until", "yesterday"], "'yesterday' is neither milliseconds nor a time"),
        (["--max-records", "0"], "--max-records"),
    ],
)
def test_a_wrong_use_is_one_sentence_and_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*ARGUMENTS, *arguments]) == 2
    errors = capsys.readouterr().err
    assert told in errors.splitlines()[-1] and "Traceback" not in errors


@pytest.fixture
def extraction_does(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``extraction_does(work)``: Spark starts at once and the run is ``work``."""

    def replace(work: Any) -> None:
        monkeypatch.setattr("kafka_zk.spark_jobs.session.spark_session", lambda *_: None)
        monkeypatch.setattr("kafka_zk.spark_jobs.session.stop", lambda _: None)
        monkeypatch.setattr("kafka_zk.spark_jobs.session.tell_no_tracebacks", lambda _: None)
        monkeypatch.setattr("kafka_zk.spark_jobs.extraction.job.check", lambda _: None)
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


def test_wait_is_given_in_seconds(extraction_does: Any) -> None:
    waits: list[float] = []

    def look(extraction: Extraction) -> None:
        waits.append(extraction.wait_ms)
        raise GroupBusy("c is a live member")

    extraction_does(look)
    assert run([*ARGUMENTS, "--wait", "2.5"]) == 3
    assert waits == [2500]
