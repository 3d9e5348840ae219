"""examples/schedulers without Airflow and Dagster, which stand-ins replace."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import click
import pytest

from kafka_zk.cli.spark.extract import command
from kafka_zk.spark_jobs.extraction.planning import Report
from tests.integration.processes import ROOT

FOLDER = ROOT / "examples" / "schedulers"


def accepted(words: list[str]) -> dict[str, Any]:
    """The options as ``kafka-zk extract`` parses them. Raises UsageError."""
    assert words[:2] == ["kafka-zk", "extract"]
    return command.make_context("extract", words[2:]).params


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, module)


def test_the_commands_of_the_dags_are_those_of_extract(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[Any] = []
    for name in ("airflow", "airflow.providers", "airflow.providers.standard", "airflow.providers.standard.operators"):
        stand_in(monkeypatch, name)
    bash = "airflow.providers.standard.operators.bash"
    stand_in(monkeypatch, bash, BashOperator=lambda **given: tasks.append(given))
    stand_in(monkeypatch, "airflow.sdk", DAG=lambda *_, **__: nullcontext())
    runpy.run_path(str(FOLDER / "airflow_dags.py"))
    lake, day = (accepted(shlex.split(each["bash_command"])) for each in tasks)
    assert (lake["target"], lake["since"], lake["as_json"]) == ("/data/lake", None, True)
    assert re.fullmatch(r"\{\{.*\}\}", day["since"]) and re.fullmatch(r"\{\{.*\}\}", day["until"])


class Failure(Exception):
    pass


class RetryRequested(Exception):
    def __init__(self, **_: Any) -> None: ...


@pytest.fixture
def flights(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``flights(exit_code, stdout)``: the asset's result after the command ended like this."""
    stand_in(
        monkeypatch, "dagster", asset=lambda function: function, AssetExecutionContext=object, Failure=Failure,
        RetryRequested=RetryRequested, MaterializeResult=lambda metadata: metadata,
        ScheduleDefinition=lambda **_: None, Definitions=lambda **_: None,
        AssetSelection=SimpleNamespace(assets=lambda *_: None),
    )  # fmt: skip
    asset = runpy.run_path(str(FOLDER / "dagster_assets.py"))["flights"]

    def ended(exit_code: int, stdout: str) -> Any:
        def run(words: list[str], **_: Any) -> Any:
            assert accepted(words)["as_json"]
            return SimpleNamespace(returncode=exit_code, stdout=stdout, stderr="words")

        monkeypatch.setattr(subprocess, "run", run)
        return asset(SimpleNamespace(log=SimpleNamespace(info=lambda _: None)))

    return ended


def test_the_asset_has_the_numbers_of_the_report(flights: Any) -> None:
    report = Report((), 7, 0, (), "nothing", seconds=1.5).as_document()
    assert flights(0, json.dumps(report)) == {"records": 7, "lag_after": 0, "seconds": 1.5}


@pytest.mark.parametrize(("exit_code", "error"), [(1, Failure), (2, Failure), (3, RetryRequested), (5, RetryRequested)])
def test_the_asset_repeats_what_may_pass(flights: Any, exit_code: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        flights(exit_code, "")


def test_a_wrong_option_would_be_noticed() -> None:
    with pytest.raises(click.UsageError):
        accepted(["kafka-zk", "extract", "--no-such-option"])
