"""Projects whose warnings are errors, by ``-W error`` or PYTHONWARNINGS, can use the fixtures and everything else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka_zk.testing.runs import ROOT, run_pytest

TIMEOUT_S = 120
IMPORT_EVERYTHING = """
import importlib, pkgutil, kafka_zk
for module in pkgutil.walk_packages(kafka_zk.__path__, "kafka_zk."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        print(module.name)
"""


@pytest.mark.slow
def test_no_module_warns_when_it_is_imported(tmp_path: Path) -> None:
    """The libraries that the modules import do not warn either."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_EVERYTHING],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    imported = done.stdout.split()
    assert "kafka_zk.protocol.codec" in imported and "kafka_zk.recorder.web.server" in imported


@pytest.mark.integration
@pytest.mark.embedded
def test_fixtures_work_where_warnings_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are errors in the tests' process and in the servers, which inherit its environment."""
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    (tmp_path / "test_strict.py").write_text(
        "def test_strict(make_cluster, make_topic):\n    make_topic(cluster=make_cluster())\n"
    )
    assert "1 passed" in run_pytest(tmp_path, "-q")
