"""The terminal that measures README's commands."""

import os
from pathlib import Path

import pytest

from tests.terminal import Shell

pytestmark = pytest.mark.integration


def test_a_command_sees_a_terminal_and_what_the_one_before_did(tmp_path: Path) -> None:
    with Shell(tmp_path, os.environ) as terminal:
        assert terminal.run("mkdir inside && cd inside && word=here").exit_code == 0
        ran = terminal.run('test -t 0 && test -t 1 && test -t 2 && echo "$word $(basename "$PWD") $(tput cols)"')
        assert (ran.exit_code, ran.shown) == (0, "here inside 80\n")
        assert terminal.run("(exit 3)").exit_code == 3


def test_silence_counts_from_the_start_to_the_first_character_between_two_and_to_the_end(tmp_path: Path) -> None:
    with Shell(tmp_path, os.environ) as terminal:
        commands = {
            "sleep 0.5; printf a": "",
            "echo x; printf a; sleep 0.5; printf b": "a",
            "echo a; sleep 0.5": "a",
        }
        for command, before in commands.items():
            ran = terminal.run(command)
            assert 0.45 < ran.silence_s <= ran.seconds < 20, command
            assert ran.before_silence == before
        spoken = terminal.run("for number in 1 2 3 4 5; do printf $number; sleep 0.1; done")
        assert spoken.seconds > 0.45 and spoken.silence_s < spoken.seconds


def test_a_command_that_does_not_end_is_told(tmp_path: Path) -> None:
    with Shell(tmp_path, os.environ) as terminal:
        assert terminal.run("sleep 60", timeout_s=0.2).exit_code is None


def test_a_command_that_goes_on_is_ended_by_ctrl_c(tmp_path: Path) -> None:
    with Shell(tmp_path, os.environ) as terminal:
        program = r"trap 'kill \$!; echo bye; exit 0' INT; sleep 60 & echo ready; wait"
        assert terminal.run_until(f'bash -c "{program}"', "ready").exit_code == 0
        ended = terminal.interrupt()
        assert "bye" in ended.shown and ended.exit_code is not None


def test_what_is_shown_is_without_colours_and_what_was_written_over(tmp_path: Path) -> None:
    with Shell(tmp_path, os.environ) as terminal:
        assert terminal.run(r"printf 'one\r\033[2K\033[1mtwo\033[0m\nthree\n'").shown == "two\nthree\n"


def test_a_shell_that_ends_is_told(tmp_path: Path) -> None:
    with Shell(tmp_path, os.environ) as terminal:
        assert terminal.run("echo last; exec true").exit_code == -1
