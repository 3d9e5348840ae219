"""The output of ``make demo`` and ``make test`` during the installation. A script replaces pip, so nothing is
downloaded.
"""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.processes import ROOT

pytestmark = pytest.mark.integration

SLOW_PIP = '#!/bin/sh\ncase "$*" in *pip*) echo "$@"; sleep 2.5; exit $CODE ;; esac\n'
TIMEOUT_S = 60


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A virtual environment whose pip is slow and prints nothing but its arguments."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(SLOW_PIP)
    python.chmod(0o755)
    return tmp_path / "venv"


def make(target: Path, venv: Path, code: int = 0) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        ["make", "--no-print-directory", f"VENV={venv}", str(target)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={"PATH": "/usr/bin:/bin", "CODE": str(code)},
    )  # fmt: skip


def test_an_installation_is_not_silent(venv: Path) -> None:
    """make prints a line before each step, pip's own lines, and a dot for each second in which pip prints nothing."""
    process = make(venv / ".demo", venv)
    assert process.stdout
    silences_s, text, last_s = [], b"", time.monotonic()
    while chunk := os.read(process.stdout.fileno(), 65536):
        text += chunk
        silences_s.append(time.monotonic() - last_s)
        last_s = time.monotonic()
    assert process.wait(TIMEOUT_S) == 0, text
    shown = text.decode()
    assert shown.startswith(f"installing into {venv}: about 1 GB, once")
    assert "install --no-compile --progress-bar off" in shown, "the options do not follow install"
    assert "-m pip" in shown and "--quiet" not in shown
    assert shown.count("..") >= 2, shown
    assert max(silences_s[1:]) < 2.4, "no dots appeared during pip's silence"


def test_an_installation_that_fails_fails_make(venv: Path) -> None:
    process = make(venv / ".demo", venv, code=1)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2
    assert not (venv / ".demo").exists()
