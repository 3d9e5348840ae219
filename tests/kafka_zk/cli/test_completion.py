"""Shells complete commands, options and values, quickly and without loading the broker."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from kafka_zk.cli.commands import COMMANDS, cli
from kafka_zk.cli.completion import SHELLS, VARIABLE
from kafka_zk.cli.main import run

ROOT = Path(__file__).parents[3]
HEAVY = ("twisted", "kazoo", "rich", "pyspark", "kafka_zk.broker.process.broker", "kafka_zk.registry", "packaging")
PRESS_TAB = """
set -eu
eval "$(kafka-zk completion bash)"
complete -p kafka-zk
COMP_WORDS=(kafka-zk %s)
COMP_CWORD=%d
COMPREPLY=()
_kafka_zk_completion kafka-zk
printf '%%s\n' "${COMPREPLY[@]}"
"""
"""The actions of bash when the user presses Tab."""


def completions(*words: str) -> list[str]:
    """The completions of the last word, after the words before it."""
    *before, incomplete = words
    found = ShellComplete(cli, {}, "kafka-zk", VARIABLE).get_completions(before, incomplete)
    return [item.value for item in found]


def test_commands_options_and_choices_are_completed() -> None:
    assert completions("to") == ["topics"]
    assert completions("topics", "cr") == ["create"]
    assert completions("topics", "create", "--part") == ["--partitions"]
    assert completions("completion", "") == list(SHELLS)
    assert completions("") == list(COMMANDS)


def test_help_beside_a_command_is_that_of_its_list() -> None:
    found = ShellComplete(cli, {}, "kafka-zk", VARIABLE).get_completions([], "topics")
    assert [item.help for item in found] == [COMMANDS["topics"].help]


def test_the_options_of_kafka_zk_itself_are_completed() -> None:
    assert completions("--ver") == ["--version"]


@pytest.mark.parametrize("line", ["", "topics ", "consume --g", "topics list --bootstrap-server h:1 --", "up --"])
def test_completion_imports_neither_a_broker_nor_what_a_client_needs(line: str) -> None:
    """Unlike running a client command, completing it does not hide pyOpenSSL."""
    program = (
        "import sys\n"
        "from click.shell_completion import ShellComplete\n"
        "from kafka_zk.cli.commands import cli\n"
        f"*before, incomplete = {line.split(' ')!r}\n"
        "assert ShellComplete(cli, {}, 'kafka-zk', '').get_completions(before, incomplete)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], sys.modules.get('OpenSSL', 'untouched'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[] untouched\n"


def test_completing_a_command_name_imports_no_command() -> None:
    program = (
        "import sys; from click.shell_completion import ShellComplete; from kafka_zk.cli.commands import cli; "
        "ShellComplete(cli, {}, 'kafka-zk', '').get_completions([], 't'); print('kafka_zk.cli.topics' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(("line", "expected"), [("to", "topics"), ("topics des", "describe")])
def test_bash_completes_after_its_script(line: str, expected: str, tmp_path: Path) -> None:
    program = tmp_path / "kafka-zk"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafka_zk "$@"\n')
    program.chmod(0o755)
    words = line.split()
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = ["bash", "-c", PRESS_TAB % (" ".join(words), len(words))]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    [registered, *replies] = done.stdout.splitlines()
    assert registered.endswith("_kafka_zk_completion kafka-zk")
    assert replies == [expected]


@pytest.mark.parametrize(
    ("shell", "answer"), [("bash", "plain,topics"), ("zsh", "plain\ntopics\n"), ("fish", "topics")]
)
def test_each_script_asks_in_a_way_that_is_answered(
    shell: str, answer: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["completion", shell]) == 0
    assert f"{VARIABLE}={shell}_complete" in capsys.readouterr().out
    monkeypatch.setenv(VARIABLE, f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "kafka-zk to")
    monkeypatch.setenv("COMP_CWORD", "to" if shell == "fish" else "1")
    with pytest.raises(SystemExit) as ended:
        run([])
    assert ended.value.code == 0
    assert answer in capsys.readouterr().out


def test_an_unknown_shell_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err


def test_only_commands_that_are_shown_are_completed() -> None:
    """Completion lists all names of the table, so no command may be hidden."""
    hidden = [name for name in COMMANDS if (command := cli.get_command(click.Context(cli), name)) and command.hidden]
    assert hidden == []
