"""Logs of outages of Apache Kafka 3.9.1 that ``tests.peers.outages.record`` has recorded."""

from pathlib import Path

from kafka_zk.recorder.web.sources import LogSource
from kafka_zk.recorder.zookeeper_files.transaction_log import Transaction

DATA = Path(__file__).parent / "data"


def recorded(name: str, chroot: str = "") -> list[Transaction]:
    return LogSource(DATA / name / "zookeeper", chroot).read()
