"""The terminal that measures README's commands."""

import os
from pathlib import Path

import pytest

from tests.peers.processes import wait_until
from tests.terminal import CTRL_C, Shell, Terminal

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


def has_ended(pid: str) -> bool:
    """True if the process is gone, or is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except FileNotFoundError:
        return True


def test_output_is_read_after_its_program_has_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with Terminal(["sh", "-c", f"echo $$ > {pid}; printf %08000d 7; exit 3"], os.environ) as terminal:
        wait_until(lambda: pid.exists() and has_ended(pid.read_text().strip() or "self"), 20, "the program has ended")
        assert terminal.read_to_the_end() == 3
        assert terminal.text == f"{7:08000}"  # more than the kernel buffers without a reader


def test_a_program_that_a_signal_ends_has_a_negative_exit_code(tmp_path: Path) -> None:
    with Terminal(["sh", "-c", "echo ready; exec sleep 60"], os.environ) as terminal:
        terminal.read_until("ready")
        terminal.press(CTRL_C)
        assert terminal.read_to_the_end() == -2


def test_a_program_learns_that_its_terminal_is_hung_up(tmp_path: Path) -> None:
    program = "trap 'echo bye > told; exit 4' HUP; sleep 60 & echo ready; wait"
    with Terminal(["bash", "-c", program], os.environ, tmp_path) as terminal:
        terminal.read_until("ready")
        assert terminal.hang_up() == 4
    assert (tmp_path / "told").read_text() == "bye\n"
