"""``kafka-zk extract`` as far as it goes without Spark."""

import pytest

from kafka_zk.cli.main import run

ARGUMENTS = ["extract", "--zookeeper", "127.0.0.1:1", "--group", "g", "--topic", "t", "--to", "/x"]


def test_without_spark_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "Spark needs numba: pip install 'kafka-zk[spark]'"
    monkeypatch.setattr("spark_jobs.extract.absent_packages", lambda: told)
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
