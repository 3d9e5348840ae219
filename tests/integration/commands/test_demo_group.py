"""The lines that the demo's group prints."""

import re
from pathlib import Path

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.learn.demo.group import BrokerDemoGroup, ZookeeperDemoGroup
from kafka_zk.testing.plugin import MakeTopic

pytestmark = pytest.mark.integration


def test_a_line_for_each_change_and_no_more(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Three members start, a fourth joins, and one dies, which is one rebalance: a few lines, each after its cause."""
    lines: list[str] = []
    topic = make_topic(partitions=8)
    group = ZookeeperDemoGroup(tmp_path, kafka_zk_cluster.zookeeper_connect, topic, 8, lines.append)
    with group.watched():
        group.join("anna", "ben", "cleo")
        group.join("dora")
        group.kill("ben")
    told = re.sub(r"\n  ", " ", "\n".join(lines)).splitlines()
    assert len(told) <= 5 and all(len(line) <= 77 for line in lines), lines
    assert re.match(r"dora joined: \S+→dora .*; 6 never stopped; silent at most \d+ ms; \d+ requests$", told[-2])
    assert re.match(r"the session of ben ended: ben→\S+ .*; 6 never stopped; .*\d+ requests$", told[-1])


def test_the_same_in_a_group_of_the_broker(
    traced_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Two members start and one leaves, which are two rebalances; the brokers' traces of earlier groups are ignored."""
    lines: list[str] = []
    topic = make_topic(partitions=8, cluster=traced_cluster)
    assert traced_cluster.trace is not None
    group = BrokerDemoGroup(tmp_path, traced_cluster.bootstrap, traced_cluster.trace, topic, 8, lines.append)
    with group.watched():
        group.join("emil", "fay")
        group.leave("fay")
    assert len(lines) <= 6 and all(len(line) <= 77 for line in lines), lines
    told = re.sub(r"\n  ", " ", "\n".join(lines)).splitlines()
    assert re.match(r"fay left: fay→emil .*; 4 never stopped; silent at most \d+ ms; \d+ requests$", told[-1])
