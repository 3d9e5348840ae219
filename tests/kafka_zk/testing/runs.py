"""Run pytest in a folder as a user's project would, with the plugin of this tree."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 120


def run_pytest(folder: Path, *arguments: str, environ: Mapping[str, str] = MappingProxyType({})) -> str:
    """Returns pytest's output and errors. ``environ``: further environment variables."""
    plugin = [] if entry_points(group="pytest11", name="kafka_zk") else ["-p", "kafka_zk.testing.plugin"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(
        [*command, *plugin, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.stdout + done.stderr
