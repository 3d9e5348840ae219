"""The time and memory that a broker needs to load the cluster's ACLs: `python -m tests.bench.acl_load`.

ZooKeeper is a real one, and each load runs in a process of its own. On a busy machine, the CPU seconds are far below
the elapsed time. The target for 100,000 ACLs on 10,000 resources is less than 2 s and 100 MB.

With ``--beside``, a broker of ours and one of Apache Kafka 3.9.1 (Java 17, Maven) start without and with these ACLs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from kafka_zk.base.clock import SystemClock
from kafka_zk.broker.security.acl_authorizer import AclAuthorizer
from kafka_zk.broker.security.acl_rules import AclRules
from kafka_zk.broker.security.denials import Denials
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.registry.acls import AclRegistry
from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.kazoo_twisted import KazooTwistedClient
from kafka_zk.registry.znodes import acl as znodes
from kafka_zk.security.acl import Acl, Operation, Pattern, PatternType, Permission, ResourceType
from tests.bench import measure
from tests.peers.authorization.authorized_kafka import authorized_brokers
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK

_USERS = 5_000
_OPERATIONS = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER)
_ZNODES_AT_ONCE = 200
_LIMIT_S = 600.0


class Load(NamedTuple):
    """The figures of one load. ``peak_bytes``: the growth of the process at its peak."""

    patterns: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def patterns(count: int, acls_each: int) -> Iterator[tuple[Pattern, list[Acl]]]:
    """Half of the patterns are prefixed. One entry in ten is a Deny, and users and operations differ."""
    number = 0
    for each in range(count):
        acls = []
        for _ in range(acls_each):
            permission = Permission.DENY if number % 10 == 0 else Permission.ALLOW
            acls.append(Acl(f"User:user-{number % _USERS}", "*", _OPERATIONS[number // _USERS % 4], permission))
            number += 1
        kind = PatternType.PREFIXED if each % 2 else PatternType.LITERAL
        yield Pattern(ResourceType.TOPIC, f"topic-of-some-length-{each:06}", kind), acls


def fill(connect_string: str, resources: int, acls_each: int) -> None:
    """Write the ACLs without announcements, as if ZooKeeper had purged those."""
    client = KazooBlockingClient(connect_string)
    client.start()
    try:
        run_blocking(AclRegistry(client).ensure_paths())
        made = patterns(resources, acls_each)
        creates = [Create(znodes.pattern_path(pattern), znodes.encode(acls)) for pattern, acls in made]
        for first in range(0, len(creates), _ZNODES_AT_ONCE):
            run_blocking(client.multi(creates[first : first + _ZNODES_AT_ONCE]))
    finally:
        run_blocking(client.close())


def load(connect_string: str) -> Load:
    """Load all ACLs in this process, as a broker does when it starts."""
    thread = reactor_thread()
    return thread.call(_load, thread.reactor, connect_string, timeout_s=_LIMIT_S)


async def _load(reactor: Any, connect_string: str) -> Load:
    client = KazooTwistedClient(reactor, connect_string, 60_000, connection_timeout_ms=60_000)
    await client.start()
    clock = SystemClock(reactor)
    authorizer = AclAuthorizer(client, AclRegistry(client), clock, AclRules(), Denials(clock))
    before_bytes = measure.memory(os.getpid()).resident_bytes
    began_s, cpu_s = time.monotonic(), time.process_time()
    await authorizer.start()
    seconds, cpu_seconds = time.monotonic() - began_s, time.process_time() - cpu_s
    peak_bytes = measure.memory(os.getpid()).peak_bytes - before_bytes
    authorizer.close()
    await client.close()
    return Load(len(authorizer.rules.acls), seconds, cpu_seconds, peak_bytes)


def measured(resources: int, acls_each: int) -> Load:
    """Fill a ZooKeeper, and load its ACLs in a new process."""
    with (
        tempfile.TemporaryDirectory(prefix="kafka-zk-acl-load-") as folder,
        EmbeddedZooKeeper(Path(folder), force_sync=False) as zookeeper,
    ):
        fill(zookeeper.connect_string, resources, acls_each)
        command = [sys.executable, "-m", "tests.bench.acl_load", "--load-from", zookeeper.connect_string]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S)
    return Load(*json.loads(answer.stdout))


class Start(NamedTuple):
    """The figures of a broker's start, until it serves requests."""

    seconds: float
    cpu_seconds: float
    resident_bytes: int


def start(name: str, zookeeper: str, chroot: str, folder: Path) -> Start:
    """Start a broker of this kind with a cluster's chroot, and stop it."""
    began_s = time.monotonic()
    with authorized_brokers(zookeeper, folder / str(began_s), [name], [chroot], _LIMIT_S) as (broker,):
        pid = broker.process.pid
        return Start(time.monotonic() - began_s, measure.cpu_seconds(pid), measure.memory(pid).resident_bytes)


def beside(resources: int, acls_each: int) -> None:
    """Print the cost that the ACLs add to the start of each kind of broker."""
    with (
        tempfile.TemporaryDirectory(prefix="kafka-zk-acl-load-") as folder,
        EmbeddedZooKeeper(Path(folder, "zookeeper"), force_sync=False) as zookeeper,
    ):
        for name, chroot in ((APACHE_KAFKA, "theirs"), (KAFKA_ZK, "ours")):
            where = (name, zookeeper.connect_string, chroot, Path(folder))
            start(*where)  # creates the cluster's znodes
            without = start(*where)
            fill(f"{zookeeper.connect_string}/{chroot}", resources, acls_each)
            full = start(*where)
            print(
                f"{name}, {resources:,} resources: started in {full.seconds:.1f} s"
                f" ({without.seconds:.1f} without ACLs), {full.cpu_seconds:.1f} s of CPU ({without.cpu_seconds:.1f}"
                f" without), {full.resident_bytes / 1e6:.0f} MB"
                f" ({without.resident_bytes / 1e6:.0f} without)",
                flush=True,
            )


@click.command(help=__doc__)
@click.option("--load-from", metavar="HOST:PORT", help="Only load the ACLs of that ZooKeeper, and print JSON.")
@click.option("--acls", default=100_000, show_default=True, type=click.IntRange(min=1))
@click.option("--resources", default=10_000, show_default=True, type=click.IntRange(min=1))
@click.option("--beside", "is_beside", is_flag=True, help="Start whole brokers, Apache Kafka's too.")
def main(load_from: str | None, acls: int, resources: int, *, is_beside: bool) -> None:
    if load_from is not None:
        print(json.dumps(load(load_from)))
        return
    if is_beside:
        for count in (resources, acls):
            beside(count, acls // count)
        return
    for count in (resources, acls):
        done = measured(count, acls // count)
        print(
            f"{acls // count * count:,} ACLs on {done.patterns:,} resources: {done.seconds:.2f} s,"
            f" {done.cpu_seconds:.2f} s of CPU, {done.peak_bytes / 1e6:.0f} MB"
        )


if __name__ == "__main__":
    main()
