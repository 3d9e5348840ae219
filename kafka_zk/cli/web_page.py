"""The web page of a running ``up``: a ``kafka-zk web`` as its child process."""

from pathlib import Path

from kafka_zk.cli.web import URL
from kafka_zk.embedded.process import ChildProcess, python_command

LOG = "web.log"


class WebPage:
    """Starts at once. Its first question goes to the control socket of ``up``, so it is up only after that serves."""

    def __init__(self, data_dir: Path, port: int) -> None:
        log = data_dir / LOG
        log.unlink(missing_ok=True)
        command, environ = python_command("web", "--data", data_dir, "--port", str(port))
        self._process = ChildProcess("the web page", command, log, environ)
        self._process.start()
        self._told = False

    def news(self) -> str | None:
        """Once: where the page is, or how it ended."""
        if self._told:
            return None
        found = [line for line in self._process.log_file.read_text().splitlines() if line.startswith(URL)]
        if found:
            self._told = True
            return found[0]
        if not self._process.alive:
            self._told = True
            return self._process.describe_end()
        return None

    def stop(self) -> None:
        self._process.stop()
