"""The command line as a whole: help, speed, failures."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kafka_zk.cli.commands import COMMANDS, cli
from kafka_zk.cli.main import DEBUG_VARIABLE, UNEXPECTED, run

ROOT = Path(__file__).parents[3]
GROUPS = ("acls", "topics", "groups", "quotas", "users", "break", "lake", "migration", "tier")
"""Commands that have subcommands."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: kafka-zk {name}")
    assert "--json" in shown or name in ("broker", "completion", "zookeeper", *GROUPS)


def test_help_fits_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    subcommands = [[name, each] for name in GROUPS for each in _subcommands(name)]
    for words in ([], *([name] for name in COMMANDS), *subcommands):
        assert run([*words, "--help"]) == 0
        wide = [line for line in capsys.readouterr().out.splitlines() if len(line) > 80]
        assert not wide, words


def _subcommands(name: str) -> list[str]:
    group = cli.get_command(click.Context(cli), name)
    assert isinstance(group, click.Group)
    return list(group.commands)


def test_help_imports_neither_twisted_nor_kazoo_nor_rich() -> None:
    code = (
        "import sys; from kafka_zk.cli.main import run; run(['--help']);"
        "print([name for name in ('twisted', 'kazoo', 'rich', 'kafka', 'pyspark') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"


def test_a_command_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tpics"]) == 2
    assert "no such command 'tpics'; did you mean topics?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["topic", "list"], "topics"),
        (["topics", "lst"], "list"),
        (["groups", "describ"], "describe"),
        (["topics", "list", "--bootstrap-serve", "h:1"], "--bootstrap-server"),
        (["consume", "--topic", "t", "--from-begining"], "--from-beginning"),
        (["consume", "--topic", "t", "--property", "print.kye=true"], "print.key"),
        (["consume", "--topic", "t", "--consumer-property", "fetch.min.byts=1"], "fetch.min.bytes"),
    ],
)
def test_the_nearest_name_is_told_wherever_a_name_is_not_there(
    words: list[str], nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) in (1, 2)
    told = capsys.readouterr().err.lower()
    assert f"did you mean {nearest}?" in told.replace("'", "")


def test_brokers_that_are_not_there_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "list", "--bootstrap-server", "127.0.0.1:1"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("Error: cannot reach any of 127.0.0.1:1")
    assert message.count("\n") == 1


def test_a_bad_broker_value_names_the_key_and_what_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("zookeeper.connect=127.0.0.1:1\nnum.partitions=many\n")
    assert run(["broker", str(properties)]) == 1
    assert capsys.readouterr().err == "Error: num.partitions=many: must be a number\n"


def test_up_refuses_a_bad_override_before_it_starts_anything(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "-o", "num.partitions=0"]) == 1
    assert "num.partitions=0: must be a number of at least 1" in capsys.readouterr().err
    assert run(["up", "-o", "broker.id=5"]) == 2
    assert "up sets it" in capsys.readouterr().err


def test_our_own_fault_is_told_as_such_and_raised_for_debugging(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kafka_zk.cli.topics.topic_access", lambda *_: 1 / 0)
    assert run(["topics", "list"]) == UNEXPECTED
    assert "this is a bug in kafka-zk: ZeroDivisionError" in capsys.readouterr().err
    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    with pytest.raises(ZeroDivisionError):
        run(["topics", "list"])


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    pipeline = f"{sys.executable} -m kafka_zk --help | head -c 10"
    shown = subprocess.run(pipeline, shell=True, capture_output=True, text=True, cwd=ROOT, check=True)
    assert shown.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["consume", "--topic", "t", "--from-beginning", "--offset", "3"], "give one of --offset"),
        (["consume", "--topic", "t", "--offset", "x"], "is not earliest, latest or an offset"),
        (["consume", "--topic", "t", "--from-timestamp", "noon"], "neither milliseconds nor a time"),
        (["topics", "create", "--topic", "t", "--partitions", "1", "--replica-assignment", "0"], "cannot be combined"),
        (["topics", "create", "--topic", "t", "--replica-assignment", "a"], "is not of the form 0:1,1:2"),
        (["znodes", "brokers"], "does not start with /"),
        (["dump-log"], "give at least one file or folder"),
        (["up", "--port", "65535"], "exceed port 65535"),
    ],
)
def test_wrong_use_is_told_with_exit_code_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert sentence in capsys.readouterr().err


def test_an_interrupt_that_was_caught_leaves_the_exit_code_alone(tmp_path: Path) -> None:
    """The exit code is right even if the interrupt arrives while a module's dataclasses are created."""
    (tmp_path / "interrupted.py").write_text(
        "from kafka_zk.cli import main\n"
        "def run(arguments):\n"
        "    try:\n"
        "        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n"
        "        return 3\n"
        "main.run = run\n"
        "main.main()\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, env=environ, check=False)
    assert ended.returncode == 3
