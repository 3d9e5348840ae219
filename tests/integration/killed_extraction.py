"""Real runs of the extraction, killed and recovered, and the check that each record is there exactly once."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka_zk.client.blocking_admin import BlockingAdmin
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.producer.blocking import BlockingProducer
from registry.kazoo_blocking import KazooBlockingClient, run_blocking
from registry.offsets import OffsetRegistry
from spark_jobs.extraction.steps import Phase, Step
from storage.types import TopicPartition
from tests.integration.processes import ROOT
from tests.integration.spark import LOCAL

PARTITIONS = 2
TIMEOUT_S = 400


class KilledExtraction:
    """One topic, one group, one target folder."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path, topic: str) -> None:
        self._cluster = cluster
        self._folder = folder
        self._topic = topic
        self._written = 0
        with BlockingAdmin(None, bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topic(topic, PARTITIONS, 1)

    def write(self, count: int) -> None:
        with BlockingProducer(None, bootstrap_servers=self._cluster.bootstrap) as producer:
            for number in range(self._written, self._written + count):
                producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS)
            producer.flush()
        self._written += count

    def run(self, *point: str) -> "subprocess.CompletedProcess[str]":
        """A run to its end, whichever that is."""
        fields = {
            "zookeeper": self._cluster.zookeeper_connect,
            "group": f"group-{self._topic}",
            "topics": [self._topic],
            "target": str(self._folder),
            "format": "json",
            "decode": "string",
            "session_timeout_ms": 4_000,
        }
        command = [sys.executable, "-m", "tests.integration.extraction_process", json.dumps(fields), *point]
        environ = {**os.environ, **LOCAL, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=TIMEOUT_S, check=False)

    def kill(self, step: Step, phase: Phase, victim: str) -> None:
        """A run that loses driver or executor at a point; it must not end well unless nothing was left to do."""
        done = self.run(step.name, phase.value, victim)
        assert done.returncode != 0 or victim == "executor", done.stdout

    def recover(self) -> list[str]:
        """Runs until nothing is left; returns how each recovered."""
        told = []
        for _ in range(2):  # one may only repeat what was begun
            done = self.run()
            assert done.returncode == 0, done.stderr[-4000:]
            told.append(json.loads(done.stdout.splitlines()[-1])["recovered"])
        return told

    def check(self) -> None:
        """Target, registry and what was written agree."""
        expected = sorted((number % PARTITIONS, number // PARTITIONS, str(number)) for number in range(self._written))
        assert sorted(self._records()) == expected
        partitions = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        with KazooBlockingClient(self._cluster.zookeeper_connect) as client:
            stored = run_blocking(OffsetRegistry(client, f"group-{self._topic}").fetch(partitions))
        assert sum(each.offset for each in stored.values()) == self._written

    def _records(self) -> Iterator[tuple[int, int, str]]:
        for path in self._folder.glob("range=*/*.json"):
            for line in path.read_text().splitlines():
                record: dict[str, Any] = json.loads(line)
                yield record["partition"], record["offset"], record["value"]
