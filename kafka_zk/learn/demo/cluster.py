"""The demo's cluster: a ``kafka-zk up`` in the background."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.ports import can_listen
from kafka_zk.embedded.process import ChildProcess, python_command

FIRST_PORT = 9092
START_TIMEOUT_S = 120  # longer than the timeout of ``up``, so that ``up`` reports the error
STOP_TIMEOUT_S = 45
SESSION_TIMEOUT_MS = 4_000  # the minimum of this ZooKeeper
ERROR = "Error: "
INTERRUPTED = 130  # exit code of ``up`` if it is stopped before it is ready


class DemoCluster:
    """Output of ``kafka-zk up --json`` has pids, ports and addresses.

    ``trace``: the directory of the brokers' traces.
    """

    def __init__(self, data_dir: Path, broker_count: int, keep: bool) -> None:
        ports_free = all(can_listen(FIRST_PORT + number) for number in range(broker_count))
        self.trace = data_dir / "trace"
        command, environ = python_command(
            "up", "--json", "--brokers", str(broker_count), "--data", data_dir, "--port", str(FIRST_PORT * ports_free),
            "--trace", self.trace, "-o", f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_MS}",
        )  # fmt: skip
        self._process = ChildProcess("the cluster", command, data_dir / "up.log", environ, outlives_parent=keep)
        self._reported_count = 0
        self.bootstrap = ""
        self.zookeeper = ""

    @property
    def pid(self) -> int:
        """The process id of ``up``: SIGTERM stops the whole cluster cleanly."""
        return self._process.pid

    def start(self) -> Iterator[dict[str, Any]]:
        """Start ``up``. Yields its events: "zookeeper", "broker" and "registered" for each broker, then "ready".

        Raises: ProcessFailed with the message of ``up``.
        """
        self._process.start()
        while True:
            try:
                self._process.wait_until(self._has_news, START_TIMEOUT_S, "come up")
            except ProcessFailed as failure:
                raise ProcessFailed(self._complaint() or str(failure)) from None
            for event in self._news():
                yield event
                if event["event"] == "ready":
                    self.bootstrap, self.zookeeper = event["bootstrap"], event["zookeeper"]
                    return

    def stop(self) -> None:
        """Raises ProcessFailed if a process did not end cleanly."""
        if not self._process.alive:
            return
        clean = (0,) if self.bootstrap else (0, INTERRUPTED, -signal.SIGTERM)
        if self._process.stop(STOP_TIMEOUT_S) not in clean:
            raise ProcessFailed(self._complaint() or self._process.describe_end())

    def check(self) -> None:
        """Raises ProcessFailed if a process has ended on its own."""
        self._process.check_alive()
        for event in self._news():
            if event["event"] == "ended":
                raise ProcessFailed(event["message"])

    def _complaint(self) -> str | None:
        errors = [line for line in self._process.output().splitlines() if line.startswith(ERROR)]
        return errors[-1].removeprefix(ERROR) if errors and not self._process.alive else None

    def _events(self) -> list[dict[str, Any]]:
        whole_lines = self._process.output().split("\n")[:-1]
        return [json.loads(line) for line in whole_lines if line.startswith("{")]

    def _has_news(self) -> bool:
        return len(self._events()) > self._reported_count

    def _news(self) -> list[dict[str, Any]]:
        events = self._events()[self._reported_count :]
        self._reported_count += len(events)
        return events
