"""``.ci/patiently``, with which make installs: no second without a sign of life."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.documented import ROOT
from tests.terminal import Terminal

pytestmark = pytest.mark.integration

PATIENTLY = ROOT / ".ci" / "patiently"


def test_on_a_terminal_a_line_counts_the_seconds(tmp_path: Path) -> None:
    with Terminal(tmp_path, os.environ) as terminal:
        ran = terminal.run(f"{PATIENTLY} installing sleep 2.5")
        assert (ran.exit_code, ran.shown.split("\n")[0]) == (0, "installing")
        assert re.match(r"  [23] s", ran.shown.split("\n")[1])
        assert ran.silence_s < 1 < ran.seconds


def test_elsewhere_it_says_what_is_done_and_how_it_ended(tmp_path: Path) -> None:
    done = subprocess.run(
        [PATIENTLY, "installing", "sh", "-c", "echo no >&2; exit 3"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (3, "installing\nno\n")


def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    with Terminal(tmp_path, os.environ) as terminal:
        assert terminal.run_until(f"{PATIENTLY} installing sleep 60", " s").exit_code == 0
        assert terminal.interrupt().seconds < 20
