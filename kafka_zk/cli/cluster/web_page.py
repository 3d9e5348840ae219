"""The page of a running ``up`` or ``demo``, a ``kafka-zk web`` child process."""

import os
from collections.abc import Sequence
from pathlib import Path

from kafka_zk.cli.cluster.web import BREAK_URL, URL
from kafka_zk.embedded.process import ChildProcess, python_command

LOG = "web.log"
START_TIMEOUT_S = 60


class WebPage:
    """Starts immediately, and waits for the control socket of ``up``.

    Args:
        traces: folder of the processes' traces; default: that of the brokers of ``up``.
    """

    def __init__(self, data_dir: Path, port: int, traces: Sequence[Path] = ()) -> None:
        log = data_dir / LOG
        _create_private(log)
        given = [part for trace in traces for part in ("--trace", trace)]
        command, environ = python_command("web", "--data", data_dir, "--port", str(port), *given)
        self._process = ChildProcess("the web page", command, log, environ)
        self._process.start()
        self._told = False

    def news(self) -> str | None:
        """The page's URL and the URL for breaking, or how the process ended.

        None if neither is known yet, or it was returned before.
        """
        if self._told:
            return None
        if found := self._url():
            self._told = True
            break_url = self._line(BREAK_URL)
            return f"{URL}{found}" + (f"\n{BREAK_URL}{break_url}" if break_url else "")
        if not self._process.alive:
            self._told = True
            return self._process.describe_end()
        return None

    def wait(self) -> str:
        """Wait until the page responds. Raises ProcessFailed."""
        self._process.wait_until(lambda: bool(self._url()), START_TIMEOUT_S, "answer")
        return self._url()

    def _url(self) -> str:
        return self._line(URL)

    def _line(self, beginning: str) -> str:
        lines = self._process.log_file.read_text().split("\n")[:-1]
        return next((line.removeprefix(beginning) for line in lines if line.startswith(beginning)), "")

    def stop(self) -> None:
        self._process.stop()


def _create_private(log: Path) -> None:
    """The log contains the URL with the break token."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
