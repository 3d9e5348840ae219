"""Spark for the tests: one small session per process, on 127.0.0.1, and settings for programs with their own Spark."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options for a Java that runs for seconds, for which optimization and parallel garbage collection do not pay off."""
LOCAL = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": QUICK_JAVA, "SPARK_LAUNCHER_OPTS": QUICK_JAVA}
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}


_SHARED: list[Any] = []


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of local[2] with the source registered. Modules import and share it, because Spark takes seconds to
    start. It ends after the process's tests, or with ``stop_shared``.
    """
    from kafka_zk.spark_jobs.session import spark_session

    os.environ.update(LOCAL)
    if not _SHARED:
        _SHARED.append(spark_session("tests", "local[2]", SMALL))
        _SHARED[0].sparkContext.setLogLevel("ERROR")
    yield _SHARED[0]
    stop_shared()


def stop_shared() -> None:
    """Stop the shared session, for modules that need a different session, because a process has only one."""
    from kafka_zk.spark_jobs.session import stop

    while _SHARED:
        stop(_SHARED.pop())


def end_java() -> None:
    """End the Java of this process's earlier sessions, because ``spark.jars`` affects only the driver of a new Java."""
    from pyspark import SparkContext

    stop_shared()
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None
