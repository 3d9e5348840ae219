"""An older PySpark than the environment's, installed once by pip into ``target/peers``, because Iceberg does not
support a newer one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.integration.processes import ROOT
from tests.locks import alone
from tests.peers import jars

WITH_TABLES = "4.1.4"
"""The newest PySpark for which both Delta Lake and Iceberg have jars."""
_INSTALL_TIMEOUT_S = 900


def environ(version: str) -> dict[str, str]:
    """The variables with which a Python process uses that PySpark."""
    folder = _installed(version)
    return {"PYTHONPATH": f"{folder}:{ROOT}", "SPARK_HOME": str(folder / "pyspark"), "PYSPARK_PYTHON": sys.executable}


def _installed(version: str) -> Path:
    """Install PySpark. The folder appears by one rename, so an unfinished installation is never used."""
    folder = jars.CACHE / f"pyspark-{version}"
    with alone(folder):
        if not folder.exists():
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(partial)]
            subprocess.run([*command, f"pyspark=={version}"], check=True, timeout=_INSTALL_TIMEOUT_S)
            partial.rename(folder)
    return folder
