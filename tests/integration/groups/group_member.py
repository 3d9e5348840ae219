"""One member of a group, as a process that logs its actions for ``test_group_faults``.

    python -m tests.integration.groups.group_member FILE TOPIC GROUP STRATEGY ZOOKEEPER NAME

Each line of FILE is a JSON fact of ``kafka_zk.sim.judges.zookeeper_group``. The process writes it before the fact has
any effect, so that nothing is missing when the process is killed. A record counts as handed out when the lease granted
it (a process may be stopped right after that, which no lease can prevent). On SIGTERM, the process closes its consumer
and ends.
"""

import json
import os
import signal
import sys
import time
from typing import Any

from kafka_zk.base.clock import Clock
from kafka_zk.base.events import Event
from kafka_zk.clients.consumer.blocking_consumer import BlockingZookeeperConsumer
from kafka_zk.rebalance.driver import GroupDriver
from kafka_zk.rebalance.lease import Lease
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.sim.judges.zookeeper_group import Fact, Kind, facts_of

SESSION_TIMEOUT_MS = 4000
WORK_S = 0.005
"""The processing time of a record, so that the process has a backlog when a fault strikes."""


class TimedLease(Lease):
    """Remembers the time of its last grant."""

    asked_ms = 0.0

    def may_act(self) -> bool:
        now_ms = time.time() * 1000
        granted = super().may_act()
        if granted:
            TimedLease.asked_ms = now_ms
        return granted


class TimedDriver(GroupDriver):
    """A driver with a ``TimedLease``."""

    def __init__(self, client: RegistryClient, clock: Clock, *arguments: Any, **keywords: Any) -> None:
        super().__init__(client, clock, *arguments, **keywords)
        self.lease = TimedLease(client, clock, self._reporter)


def main(file: str, topic: str, group: str, strategy: str, zookeeper: str, name: str) -> None:
    lines = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def put(fact: Fact) -> None:
        line = [fact.time_ms, fact.member, fact.kind.value, *fact.partition, fact.offset, fact.token]
        os.write(lines, json.dumps(line).encode() + b"\n")

    def observe(event: Event) -> None:
        for fact in facts_of(event):
            put(fact)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with BlockingZookeeperConsumer(
        [topic],
        group_id=group,
        consumer_id=name,
        zookeeper_connect=zookeeper,
        zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
        partition_assignment_strategy=strategy,
        auto_offset_reset="smallest",
        auto_commit_interval_ms=200,
        rebalance_backoff_ms=1000,
        observe=observe,
        make_driver=TimedDriver,
    ) as consumer:
        for record in consumer:
            put(
                Fact(TimedLease.asked_ms, consumer.consumer_id, Kind.HANDED_OUT, record.tp, record.offset)
            )
            time.sleep(WORK_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
