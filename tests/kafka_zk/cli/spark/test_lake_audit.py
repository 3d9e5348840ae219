"""The output and exit codes of ``kafka-zk lake audit`` on folders of Parquet files."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.cli.main import run
from tests.documented import blocks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for first in (0, 3, 5, 20):
        columns = {"topic": ["t"] * 4, "partition": [0] * 4, "offset": range(first, first + 4)}
        pq.write_table(pa.table(columns), tmp_path / f"{first:05d}.parquet")
    return tmp_path


def test_people_see_what_is_wrong_and_how_to_repair_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lake", "audit", str(folder)]) == 1
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[1].split() == ["t", "0", "0", "23", "16", "3", "11"]
    assert f"duplicates: offset 3 of t-0 are in {folder}/00000.parquet and in {folder}/00003.parquet" in lines
    assert "gap: offsets 9 to 19 of t-0 are in no file" in lines
    assert "spark.read.parquet(" in shown and 'spark.read.format("kafka")' in shown
    assert lines[-3].startswith("1 files were checked only by row count")
    assert "give --bootstrap-server to compare" in lines[-2]
    assert lines[-1] == "16 rows in 4 files (parquet; 3 files were read): 3 problems, 0 not checked"


def test_documented_command_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [each for each in blocks("docs/how-to/spark.md") if each.mark == "lake-audit"]
    (command,) = block.commands
    folder.rename(folder.parent / "lake")
    monkeypatch.chdir(folder.parent)
    assert run(command.partition("#")[0].split()[1:]) == 1


def test_json_has_everything(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lake", "audit", str(folder), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["files"], found["filesRead"], found["filesByBounds"]) == (4, 3, 1)
    assert found["partitions"] == [
        {"topic": "t", "partition": 0, "first": 0, "last": 23, "rows": 16, "duplicates": 3, "missing": 11,
         "earliest": None, "latest": None}
    ]  # fmt: skip
    assert [(each["kind"], each["first"], each["count"]) for each in found["findings"]] == [
        ("DUPLICATE", 3, 1), ("DUPLICATE", 5, 2), ("GAP", 9, 11)
    ]  # fmt: skip


def test_topic_without_rows_is_not_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lake", "audit", str(folder), "--topic", "other", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["partitions"], found["notChecked"]) == ([], ["the table has no rows of topic other"])


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--from-earliest"], 2, "--from-earliest needs --bootstrap-server or --zookeeper"),
        (["--bootstrap-server", "h:1", "--zookeeper", "h:2"], 2, "not both"),
        (["--group", "g"], 2, "--group needs --key"),
        (["--schema-registry", "http://r"], 2, "--schema-registry needs --key"),
        (["--key", "id"], 2, "--key needs --topic, and --bootstrap-server or --zookeeper"),
        (["--key", "id", "--scan"], 2, "--key cannot be combined with options for columns"),
        (["--key", "id,", "--topic", "t", "--bootstrap-server", "h:1"], 2, "must be column names, separated by commas"),
        (
            ["--key", "id", "--topic", "t", "--bootstrap-server", "h:1", "--schema", "id INTEGERS"], 2,
            "the type INTEGERS is not one of",
        ),
        (["--offset-column", "position"], 1, "--offset-column: the table has no column position"),
    ],
)
def test_wrong_usage_is_one_sentence(
    options: list[str], code: int, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["lake", "audit", str(folder), *options]) == code
    assert told in capsys.readouterr().err
