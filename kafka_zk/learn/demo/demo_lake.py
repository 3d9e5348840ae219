"""The demo's extractions in one Spark session; their files are read without Spark."""

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kafka_zk.embedded.process import python_command
from kafka_zk.learn.demo.cluster import ERROR
from kafka_zk.learn.demo.errors import DemoFailed
from kafka_zk.learn.demo.flights import SCHEMA

GROUP = "lake"
PATIENCE_S = 600
STOP_TIMEOUT_S = 20
_WORKER = "kafka_zk.cli.spark.extraction_worker"  # a name, because the module is in a higher layer
_SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # starts faster, and runs for seconds
}

Progress = Callable[[int, int], None]
"""Receives the extracted records and the total."""


class DemoLake:
    """Parquet files in ``folder``, written by a Spark process that runs until ``close``.

    Raises: DemoFailed with the error message of Spark's process.
    """

    def __init__(self, folder: Path, zookeeper: str, topic: str) -> None:
        self.folder = folder
        self._zookeeper = zookeeper
        self._topic = topic
        self._errors = folder.with_suffix(".log")
        self._process: subprocess.Popen[str] | None = None
        self._events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._idle = False

    def command(self) -> str:
        """What a user would type for one extraction."""
        arguments = ["--zookeeper", self._zookeeper, "--group", GROUP, "--topic", self._topic, "--to", str(self.folder)]
        return f"kafka-zk extract {' '.join(arguments)} --decode json --schema '{SCHEMA.split(',')[0]}, …'"

    def start(self) -> None:
        """Start the worker without waiting for Spark."""
        command = [sys.executable, "-P", "-m", _WORKER, json.dumps(_SPARK)]
        _, environ = python_command()
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                text=True, start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=self._read, args=(self._process,), name="Spark's events", daemon=True).start()

    def wait_started(self) -> tuple[float, float]:
        """Returns how long Spark's start and this wait took, in seconds."""
        asked_s = time.monotonic()
        event = self._answer()
        return event["seconds"], time.monotonic() - asked_s

    def extract(self, progress: Progress = lambda done, total: None) -> dict[str, Any]:
        """Returns the report of ``kafka-zk extract --json``."""
        assert self._process is not None and self._process.stdin is not None, "Spark was started"
        asked = {
            "zookeeper": self._zookeeper, "group": GROUP, "topics": [self._topic], "target": str(self.folder),
            "decode": "json", "schema": SCHEMA,
        }  # fmt: skip
        self._idle = False
        with contextlib.suppress(BrokenPipeError):  # the process has ended; ``_answer`` reports why
            print(json.dumps(asked), file=self._process.stdin, flush=True)
        while (event := self._answer())["event"] == "progress":
            progress(event["done"], event["total"])
        return event

    def close(self) -> None:
        if self._process is None or self._process.stdin is None:
            return
        if not self._idle:
            self._process.terminate()
        try:
            self._process.stdin.close()
            self._process.wait(STOP_TIMEOUT_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._events.put(json.loads(line))
        self._events.put(None)

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None, "Spark was started"
        try:
            event = self._events.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise DemoFailed(f"Spark did not respond within {PATIENCE_S} s") from None
        if event is None:
            exit_code = self._process.wait(STOP_TIMEOUT_S)
            raise DemoFailed(_complaint(self._errors.read_text()) or f"Spark ended with exit code {exit_code}")
        self._idle = event["event"] != "progress"
        return event

    @staticmethod
    def count_by(column: str, folders: Iterable[str]) -> dict[str, int]:
        """The number of rows in published folders for each value of a column, without Spark."""
        import pyarrow.dataset

        found: dict[str, int] = {}
        for folder in folders:
            files = pyarrow.dataset.dataset(folder.removeprefix("file:"), format="parquet")
            for each in files.to_table([column])[column].value_counts().to_pylist():
                found[each["values"]] = found.get(each["values"], 0) + each["counts"]
        return found


def _complaint(errors: str) -> str | None:
    told = [line for line in errors.splitlines() if line.startswith(ERROR)]
    return told[-1].removeprefix(ERROR) if told else None
