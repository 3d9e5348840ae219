"""The groups under comparison: the process that hosts their members, and its configuration.

All use the same broker, Apache Kafka 3.9.1 in ZooKeeper mode, the same ZooKeeper, topics, session timeout and commit
interval; everything else is each consumer's default.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.rebalance.membership import BrokerMembership, Membership, ZooKeeperMembership
from tests.peers import jars, java
from tests.peers.targets import Target

SESSION_TIMEOUT_MS = 6000
COMMIT_INTERVAL_MS = 5000
#: The time for which a static member may be away and keep its partitions.
STATIC_ABSENCE_MS = 10_000
#: Enough heap for a hundred members in one JVM, and small stacks, because each member has a dozen threads.
_JVM_FLAGS = ("-Xmx768M", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Group:
    """The facts that a member process needs. ``folder`` None: it does not write records."""

    name: str
    topic: str
    cluster: Target
    folder: Path | None
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    commit_interval_ms: int = COMMIT_INTERVAL_MS


@dataclass(frozen=True)
class Method:
    """One kind of group."""

    name: str
    title: str
    command: Callable[[Group], Sequence[str]]
    membership: Callable[[Group], Membership]
    uses_zookeeper: bool = True
    is_static: bool = False


def scala_command(group: Group, settings: Mapping[str, str] | None = None) -> Sequence[str]:
    """Members of Kafka's ZooKeeper consumer of 0.10.2.2 (tests/peers/java/legacy/GroupMember.java)."""
    config = {
        "zookeeper.connect": group.cluster.zookeeper,
        "group.id": group.name,
        "zookeeper.session.timeout.ms": group.session_timeout_ms,
        "auto.commit.interval.ms": group.commit_interval_ms,
        **(settings or {}),
    }
    arguments = [group.topic, str(group.folder or ""), *(f"{key}={value}" for key, value in config.items())]
    return java.driver_command(jars.MAGIC_1_VERSION, "GroupMember", arguments, _JVM_FLAGS)


def _kafka_python_command(strategy: str) -> Callable[[Group], Sequence[str]]:
    def command(group: Group) -> Sequence[str]:
        config = {
            "bootstrap_servers": group.cluster.bootstrap,
            "group_id": group.name,
            "session_timeout_ms": group.session_timeout_ms,
            "auto_commit_interval_ms": group.commit_interval_ms,
            "partition_assignment_strategy": strategy,
        }
        module = "tests.bench.rebalance.members.kafka_python"
        return [sys.executable, "-m", module, group.topic, str(group.folder), json.dumps(config)]

    return command


def _our_command(strategy: str, *, static: bool = False) -> Callable[[Group], Sequence[str]]:
    def command(group: Group) -> Sequence[str]:
        config = {
            "group_id": group.name,
            "zookeeper_connect": group.cluster.zookeeper,
            "zookeeper_session_timeout_ms": group.session_timeout_ms,
            "auto_commit_interval_ms": group.commit_interval_ms,
            "partition_assignment_strategy": strategy,
            "static": static,
            "session_timeout_ms": STATIC_ABSENCE_MS,
        }
        module = "tests.bench.rebalance.members.ours"
        return [sys.executable, "-m", module, group.topic, str(group.folder or ""), json.dumps(config)]

    return command


def _in_zookeeper(group: Group) -> Membership:
    return ZooKeeperMembership(group.cluster.zookeeper, group.name)


def _in_the_broker(group: Group) -> Membership:
    return BrokerMembership(group.cluster.bootstrap, group.name)


METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method("range", "ours, eager range", _our_command("range"), _in_zookeeper),
        Method("sticky", "ours, sticky", _our_command("sticky"), _in_zookeeper),
        Method("cooperative", "ours, cooperative", _our_command("cooperative"), _in_zookeeper),
        Method(
            "static", "ours, static cooperative", _our_command("cooperative", static=True), _in_zookeeper,
            is_static=True,
        ),
        Method("scala-range", "Kafka 0.10.2.2, range", scala_command, _in_zookeeper),
        Method(
            "kafka-python-range", "kafka-python, range", _kafka_python_command("range"), _in_the_broker,
            uses_zookeeper=False,
        ),
        Method(
            "kafka-python-cooperative", "kafka-python, cooperative", _kafka_python_command("cooperative"),
            _in_the_broker, uses_zookeeper=False,
        ),
    )
}  # fmt: skip
