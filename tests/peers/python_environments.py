"""Environments with versions of Python packages other than the tests' own, created in `target/peers` on first use."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tests.locks import alone
from tests.peers.foreign_programs import NotBuilt
from tests.peers.jars import CACHE

_BUILD_TIMEOUT_S = 300


def python_with(*requirements: str) -> Path:
    """The Python of an environment with these packages, in pip's notation, and their dependencies. Raises: NotBuilt."""
    stamp = hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:16]
    folder = CACHE / "python" / stamp
    with alone(folder):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(folder))
            _run(str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *requirements)
            (folder / "complete").touch()
    return folder / "bin" / "python"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_BUILD_TIMEOUT_S)
    if done.returncode != 0:
        raise NotBuilt(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
