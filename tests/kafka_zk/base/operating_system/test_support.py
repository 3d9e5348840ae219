"""On Windows kafka-zk prints that it does not run there, instead of a traceback."""

from pathlib import Path

import pytest

from tests.kafka_zk.base.operating_system.other_systems import PYTEST, WINDOWS, run_on

SENTENCE = "kafka-zk does not run on Windows: use Linux, for example in the Windows Subsystem for Linux (WSL)"


@pytest.mark.parametrize("arguments", [(), ("up",), ("--version",), ("--help",)])
def test_every_command_says_in_one_sentence_that_it_does_not_run_on_windows(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    done = run_on(WINDOWS, tmp_path, "-m", "kafka_zk", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"Error: {SENTENCE}\n")


@pytest.mark.slow
def test_pytest_says_in_one_sentence_that_the_plugin_does_not_run_on_windows(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    done = run_on(WINDOWS, tmp_path, *PYTEST, "--capture=sys")  # the other modules need the real Windows
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == f"ERROR: {SENTENCE}; -p no:kafka_zk runs the tests that do not need it\n\n"
