"""``kafka-zk extract`` where Spark is not needed: without new records, for a plan, and in waits before its start."""

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.testing.plugin import MakeCluster, MakeTopic
from tests.integration.processes import COMMAND, ENVIRON, TIMEOUT_S
from tests.peers.processes import wait_until

pytestmark = pytest.mark.integration
EMPTY_RUN_S = 10
"""A bound for busy machines; on a quiet one such a run takes less than 1.5 s."""


@pytest.fixture
def no_java(tmp_path: Path) -> Mapping[str, str]:
    """An environment whose Java only reports its version, so that a run that needs Spark fails."""
    java = tmp_path / "java-home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\ncase "$*" in *-version) echo \'openjdk version "21.0.1"\' >&2 ;; *) exit 1 ;; esac\n')
    java.chmod(0o755)
    return {**ENVIRON, "JAVA_HOME": str(java.parents[1]), "LAKE": str(tmp_path / "lake")}


def extract(
    cluster: EmbeddedCluster, topic: str, environ: Mapping[str, str], *more: str
) -> "subprocess.CompletedProcess[str]":
    command = [*COMMAND, "extract", "--zookeeper", cluster.zookeeper_connect, "--group", f"g-{topic}",
               "--topic", topic, "--to", environ["LAKE"], *more]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=200, check=False)


def test_nothing_new_needs_no_java_and_its_time_is_told(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, no_java: Mapping[str, str]
) -> None:
    """The topic is first empty, and then has only records that the group has already extracted."""
    topic = make_topic(partitions=2)
    for _ in range(2):
        started_s = time.monotonic()
        done = extract(kafka_zk_cluster, topic, no_java, "--json")
        seconds = time.monotonic() - started_s
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["records"], report["published"], report["spark_start_seconds"]) == (0, [], 0)
        assert report["seconds"] < seconds < report["seconds"] + 3 < EMPTY_RUN_S + 3
        with BlockingProducer(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
            producer.send(topic, b"v", partition=0)
            producer.flush()
        with KazooBlockingClient(kafka_zk_cluster.zookeeper_connect) as client:
            run_blocking(OffsetRegistry(client, f"g-{topic}").store({TopicPartition(topic, 0): 1}))


def test_the_status_needs_none_either(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, no_java: Mapping[str, str]
) -> None:
    """The group has extracted one of two records."""
    topic = make_topic(partitions=2)
    with BlockingProducer(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        for _ in range(2):
            producer.send(topic, b"v", partition=0)
        producer.flush()
    with KazooBlockingClient(kafka_zk_cluster.zookeeper_connect) as client:
        run_blocking(OffsetRegistry(client, f"g-{topic}").store({TopicPartition(topic, 0): 1}))
    command = [*COMMAND, "extract-status", "--zookeeper", kafka_zk_cluster.zookeeper_connect, "--group", f"g-{topic}",
               "--max-lag", "0", "--json"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=no_java, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 3, done.stderr
    assert done.stderr.splitlines()[-1] == f"Error: the lag of group g-{topic} is 1, more than 0"
    status = json.loads(done.stdout)
    found = [(each["partition"], each["offset"], each["end_offset"], each["lag"]) for each in status["partitions"]]
    assert found == [(0, 1, 2, 1), (1, None, 0, 0)]
    assert (status["last"], status["unfinished"], status["members"]) == (None, None, 0)


def test_something_new_needs_it(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, no_java: Mapping[str, str]
) -> None:
    topic = make_topic()
    with BlockingProducer(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        producer.send(topic, b"v")
        producer.flush()
    done = extract(kafka_zk_cluster, topic, no_java)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "starting Spark"
    assert done.stderr.splitlines()[-1].startswith("Error: Spark did not start: ")
    assert "Traceback" not in done.stderr


def test_a_topic_that_is_not_there_is_told_with_the_nearest_name(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, no_java: Mapping[str, str]
) -> None:
    topic = make_topic()
    done = extract(kafka_zk_cluster, f"{topic}s", no_java)
    assert (done.returncode, done.stderr) == (1, f"Error: there is no topic {topic}s; did you mean {topic}?\n")


def test_a_partition_without_leader_is_told_while_it_is_waited_for(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(broker_count=2)
    with BlockingAdmin(None, bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic("headless", 2, 1)
        leaders = {each.partition: each.leader for each in admin.describe_topics(["headless"])["headless"].partitions}
    (lost,) = (partition for partition, leader in leaders.items() if leader == 1)
    with BlockingAdmin(None, bootstrap_servers=cluster.brokers[0].bootstrap) as admin:
        wait_until(lambda: "headless" in admin.list_topics(), TIMEOUT_S, "broker 0 to hear of the topic")
    cluster.brokers[1].kill()
    command = [*COMMAND, "extract", "--zookeeper", cluster.zookeeper_connect, "--group", "g", "--topic", "headless",
               "--to", "lake", "--dry-run", "--json"]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRON
    ) as process:
        assert process.stderr is not None
        told = []
        for line in process.stderr:
            told.append(line)
            if "has no leader" in line:
                break
        cluster.restart_broker(1)
        out, _ = process.communicate(timeout=TIMEOUT_S)
    assert told[-1] == f"waiting up to 120 s: partition headless-{lost} has no leader\n", told
    assert process.returncode == 0
    assert json.loads(out)["dry_run"] is True
