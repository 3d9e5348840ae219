"""A Java for Spark that outlives its drivers: each driver is a Python process, which can be killed alone.

A round of kills takes seconds less if no Java has to start. Jobs of a dead driver continue in the shared Java.

    python -m tests.integration.spark.shared_java local[1] '{"spark.jars": "..."}'

starts a session, prints the environment variables for drivers, and exits at the end of its stdin.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Self

from kafka_zk.spark_jobs.session import prepare_environment, spark_session, stop
from tests.integration.processes import ENVIRON
from tests.integration.spark.sessions import LOCAL, SMALL

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""The environment variables in which PySpark finds a running Java."""
_STOP_S = 60


class SharedJava:
    """A context manager. The attribute ``environ``, set on entry, is for drivers; the argument can choose a PySpark."""

    def __init__(self, master: str, conf: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._command = [sys.executable, "-m", __name__, master, json.dumps({**SMALL, **conf})]
        self._own = {**ENVIRON, **LOCAL, **environ}
        self._running = ExitStack()
        self.environ: dict[str, str] = {}

    def __enter__(self) -> Self:
        with ExitStack() as started:
            process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._own
            )
            started.callback(_end, process)
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said, "the shared session of Spark did not start"
            self.environ = json.loads(said)
            self._running = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()


def _end(process: "subprocess.Popen[str]") -> None:
    with process:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_STOP_S)
        finally:
            process.kill()


def is_shared() -> bool:
    return PORT in os.environ


def attach() -> None:
    """Give this process a new session of the shared Java. Stopping the session does not stop the Java."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    prepare_environment()
    launch: Callable[[], Any] = launch_gateway
    gateway = launch()
    java = gateway.jvm.org.apache.spark
    context = java.api.java.JavaSparkContext.fromSparkContext(java.SparkContext.getOrCreate())
    own = SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf()))
    session = SparkSession(own).newSession()
    session.stop = lambda: None  # type: ignore[method-assign]
    SparkSession._instantiatedSession = session
    java.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


def main(master: str, conf: str) -> None:
    session: Any = spark_session("shared", master, json.loads(conf))
    session.sparkContext.setLogLevel("OFF")
    parameters = session.sparkContext._gateway.gateway_parameters
    print(json.dumps({PORT: str(parameters.port), SECRET: parameters.auth_token}), flush=True)
    sys.stdin.read()
    stop(session)


if __name__ == "__main__":
    main(*sys.argv[1:])
