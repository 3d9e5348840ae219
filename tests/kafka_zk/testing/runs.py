"""Run pytest in a folder as a user's project would, with the plugin of this tree."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 120


def run_pytest(folder: Path, *arguments: str) -> str:
    """Returns pytest's output and errors."""
    plugin = [] if entry_points(group="pytest11", name="kafka_zk") else ["-p", "kafka_zk.testing.plugin"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *plugin, *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.stdout + done.stderr
