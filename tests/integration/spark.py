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


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session of local[2] with the source registered. It ends with the module, so that two JVMs do not pile up."""
    from kafka_zk.spark_jobs.session import spark_session

    os.environ.update(LOCAL)
    session = spark_session("tests", "local[2]", SMALL)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
