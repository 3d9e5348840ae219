"""Spark for the tests: one small session a process, on 127.0.0.1, and programs that run in a Spark of their own."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A Java that lives for seconds and shares its processors gains nothing by optimizing or by collecting in parallel."""
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
    """A session of local[2] with the source registered. Modules import this, and share the session: a start of Spark
    takes seconds. It ends with the tests of the process, or by ``stop_shared``."""
    from kafka_zk.spark_jobs.session import spark_session

    os.environ.update(LOCAL)
    if not _SHARED:
        _SHARED.append(spark_session("tests", "local[2]", SMALL))
        _SHARED[0].sparkContext.setLogLevel("ERROR")
    yield _SHARED[0]
    stop_shared()


def stop_shared() -> None:
    """For modules that start a session of another kind: a process has one."""
    from kafka_zk.spark_jobs.session import stop

    while _SHARED:
        stop(_SHARED.pop())


def end_java() -> None:
    """End the Java that this process's earlier sessions ran in: ``spark.jars`` reach the driver of a new one only."""
    from pyspark import SparkContext

    stop_shared()
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None
