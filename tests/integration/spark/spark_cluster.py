"""A standalone Spark cluster from the pyspark package: a master and two workers of one core each, on free ports.

The workers may be on other machines, and the daemons may be those of another Spark.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest

from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.embedded.process import ChildProcess
from kafka_zk.spark_jobs.session import prepare_environment
from tests.integration.processes import ENVIRON
from tests.integration.spark.sessions import LOCAL, QUICK_JAVA

WORKERS = 2
START_TIMEOUT_S = 300
SMALL_EXECUTORS = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": QUICK_JAVA}
"""Properties for a session on this cluster, in addition to ``sessions.SMALL``."""
_SMALL_DAEMONS = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_JAVA} -Dspark.master.rest.enabled=false",
}
_DEPLOY = "org.apache.spark.deploy"


class Place(NamedTuple):
    """Where a daemon runs: its address, and the words before its command."""

    host: str = LOCALHOST
    before: tuple[str, ...] = ()


HERE = Place()


class StandaloneCluster:
    """A context manager. ``master``: its address, set on entry. ``environ`` can choose a SPARK_HOME."""

    def __init__(
        self, folder: Path, host: str = LOCALHOST, workers: Sequence[Place] = (HERE,) * WORKERS,
        environ: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._host = host
        self._workers = workers
        own = {"SPARK_LOCAL_DIRS": str(folder / "local"), **(environ or {})}
        self._environ = {**ENVIRON, **LOCAL, **_SMALL_DAEMONS, **own}
        prepare_environment(self._environ)
        self._running = ExitStack()
        self.master = ""

    def __enter__(self) -> "StandaloneCluster":
        with ExitStack() as started:
            master = self._start(started, Place(self._host), "master", "master.Master")
            self.master = _said(master, r"Starting Spark master at (spark://\S+)")
            sizes = ["--cores", "1", "--memory", "640m"]
            workers = [
                self._start(started, place, f"worker-{number}", "worker.Worker", *sizes, "--work-dir",
                            str(self._folder / f"work-{number}"), self.master)
                for number, place in enumerate(self._workers)
            ]  # fmt: skip
            for worker in workers:
                _said(worker, "(Successfully registered with master)")
            self._running = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def _start(self, started: ExitStack, place: Place, name: str, daemon: str, *arguments: str) -> ChildProcess:
        where = ["--host", place.host, "--port", "0", "--webui-port", "0"]
        home = self._environ.get("SPARK_HOME", Path(pyspark.__file__).parent)
        command = [*place.before, f"{home}/bin/spark-class", f"{_DEPLOY}.{daemon}", *where, *arguments]
        environ = {**self._environ, "SPARK_LOCAL_IP": place.host}
        process = ChildProcess(f"Spark's {name}", command, self._folder / f"{name}.log", environ)
        process.start()
        started.callback(process.stop)
        return process


def _said(process: ChildProcess, pattern: str) -> str:
    """Wait until the log matches the pattern, and return the match of its group."""
    process.wait_until(lambda: re.search(pattern, process.output()) is not None, START_TIMEOUT_S, f"say {pattern}")
    found = re.search(pattern, process.output())
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A cluster for one module, so that its three JVMs end with the module."""
    os.environ.update(LOCAL)
    with StandaloneCluster(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster
