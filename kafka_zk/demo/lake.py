"""The demo's data lake: ``kafka-zk extract`` as a person runs it, and its files as another program reads them."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kafka_zk.demo.cluster import ERROR
from kafka_zk.demo.errors import DemoFailed
from kafka_zk.demo.flights import SCHEMA
from kafka_zk.embedded.process import python_command

GROUP = "lake"
PATIENCE_S = 600
_SPARK = ("spark.ui.enabled=false", "spark.driver.bindAddress=127.0.0.1", "spark.driver.host=127.0.0.1")


class DemoLake:
    """One topic's Parquet files in ``folder``; every extraction is a process of its own, as a scheduler starts it.

    ``terminal``: its progress bars may be seen.
    """

    def __init__(self, folder: Path, zookeeper: str, topic: str, terminal: bool) -> None:
        self.folder = folder
        self._arguments = ["--zookeeper", zookeeper, "--group", GROUP, "--topic", topic, "--to", str(folder)]
        self._terminal = terminal

    def command(self) -> str:
        """What one can type to do the same."""
        return f"kafka-zk extract {' '.join(self._arguments)} --decode json --schema '{SCHEMA.split(',')[0]}, …'"

    def extract(self) -> dict[str, Any]:
        """Extract what is new; returns what the command printed with ``--json``. Raises: DemoFailed."""
        conf = [part for each in _SPARK for part in ("--conf", each)]
        command, environ = python_command(
            "extract", *self._arguments, "--decode", "json", "--schema", SCHEMA, *conf, "--json"
        )
        try:
            done = subprocess.run(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=None if self._terminal else subprocess.PIPE,
                text=True, timeout=PATIENCE_S, check=False, start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise DemoFailed(f"the extraction did not end within {PATIENCE_S} s") from None
        if done.returncode != 0:
            raise DemoFailed(_complaint(done.stderr or "") or f"the extraction ended with exit code {done.returncode}")
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    @staticmethod
    def count_by(column: str, folders: Iterable[str]) -> dict[str, int]:
        """How many rows the published folders hold for each value of a column; read without Spark."""
        import pyarrow.dataset

        found: dict[str, int] = {}
        for folder in folders:
            files = pyarrow.dataset.dataset(folder.removeprefix("file:"), format="parquet")
            for each in files.to_table([column])[column].value_counts().to_pylist():
                found[each["values"]] = found.get(each["values"], 0) + each["counts"]
        return found


def _complaint(errors: str) -> str | None:
    """The sentence with which the command failed."""
    told = [line for line in errors.splitlines() if line.startswith(ERROR)]
    return told[-1].removeprefix(ERROR) if told else None
