"""A pytest that is started by a test, in the tests' own environment or in a user's."""

import getpass
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fresh_environment import clean_environ

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("environ", [clean_environ, os.environ.copy])
def test_it_does_not_spend_its_time_on_what_earlier_runs_left(
    environ: Callable[[], dict[str, str]], tmp_path: Path
) -> None:
    common = tmp_path / f"pytest-of-{getpass.getuser()}"
    common.mkdir(mode=0o700)
    runs = [common / f"pytest-{number}" for number in range(5)]
    for run in runs:
        run.mkdir()
    (tmp_path / "test_one.py").write_text("def test_one(tmp_path):\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_one.py"]
    variables = {**environ(), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert sorted(common.iterdir()) == runs
