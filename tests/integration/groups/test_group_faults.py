"""Groups of processes on a real ZooKeeper under faults keep their promises: one owner at a time, no offset goes back,
every record at least once.

Members are killed, stopped for longer than their session and resumed, cut off for less and for more than their session,
and ZooKeeper is restarted: each fault once per round, in an order and under a strategy that the seed chooses. The
checker of the simulator's campaigns reads the members' facts and the state of ZooKeeper during the run.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.embedded.process import ChildProcess
from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.owners import OwnerRegistry
from kafka_zk.sim.judges.zookeeper_group import Fact, Kind, violations
from kafka_zk.testing.plugin import MakeCluster, MakeTopic, MakeZkClient
from tests.black_hole import black_hole
from tests.integration.groups.group_member import SESSION_TIMEOUT_MS
from tests.integration.groups.members import write
from tests.integration.processes import ENVIRON, ROOT, wait_for

pytestmark = pytest.mark.integration

GROUP = "g"
PARTITIONS = 6
RECORDS = 20
BACKLOG = 200
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative")


class Lab:
    """A topic, members that reach ZooKeeper through proxies of their own, and the observed state of ZooKeeper."""

    def __init__(self, cluster: object, topic: str, strategy: str, client: RegistryClient, folder: Path) -> None:
        self.cluster = cluster
        self.partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        self.topic = topic
        self.strategy = strategy
        self.folder = folder
        self.seen: list[Fact] = []
        self.written = 0
        self.members: dict[str, tuple[ChildProcess, TcpProxy]] = {}
        self._client = client
        self._started = 0

    def start_member(self, proxy: TcpProxy, chroot: str, servers: str = "") -> str:
        """Start a process; returns its consumer id. ``servers``: additional servers, before the proxy."""
        self._started += 1
        name = f"m{self._started}"
        journal = str(self.folder / f"{name}.jsonl")
        command = [sys.executable, "-m", "tests.integration.groups.group_member", journal, self.topic]
        process = ChildProcess(
            name,
            [*command, GROUP, self.strategy, f"{servers}{proxy.address}{chroot}", name],
            self.folder / f"{name}.log",
            {**ENVIRON, "PYTHONPATH": str(ROOT)},
        )
        process.start()
        self.members[f"{GROUP}_{name}"] = process, proxy
        return f"{GROUP}_{name}"

    def produce(self, count: int = RECORDS) -> None:
        write(self.cluster, self.topic, PARTITIONS, count)  # type: ignore[arg-type]
        self.written += count

    def consumed(self) -> bool:
        """Whether everything is committed. Each call adds to the observed state of ZooKeeper."""
        try:
            stored = run_blocking(OffsetRegistry(self._client, GROUP).fetch(self.partitions))
        except RegistryError:
            return False
        now_ms = time.time() * 1000
        self.seen += [Fact(now_ms, "", Kind.STORED, tp, offset) for tp, (offset, _) in stored.items()]
        return all(tp in stored and stored[tp].offset == self.written for tp in self.partitions)

    def owners(self) -> set[str]:
        """The consumer ids that own a partition."""
        try:
            owners = run_blocking(OwnerRegistry(self._client, GROUP).owners([self.topic]))
        except RegistryError:
            return set()
        self.consumed()
        return {thread.rpartition("-")[0] for thread in owners.values()}

    def until_consumed(self) -> None:
        wait_for(self.consumed, f"all records delivered and committed under {self.strategy}")

    def facts(self) -> list[Fact]:
        """All facts in the order in which they happened, without the unfinished line of a killed process."""
        facts = list(self.seen)
        for file in self.folder.glob("*.jsonl"):
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    time_ms, member, kind, topic, partition, offset, token = json.loads(line)
                    facts.append(Fact(time_ms, member, Kind(kind), TopicPartition(topic, partition), offset, token))
        return sorted(facts, key=lambda fact: fact.time_ms)


@pytest.fixture
def on_exit() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.one_in(2)
@pytest.mark.long
@pytest.mark.parametrize("one_server_is_dead", [False, True])
def test_a_group_of_processes_survives_whatever_happens(
    one_server_is_dead: bool,
    process_campaign_seed: int,
    make_zookeeper: Callable[[], EmbeddedZooKeeper],
    make_cluster: MakeCluster,
    make_topic: MakeTopic,
    make_zk_client: MakeZkClient,
    make_proxy: Callable[[str, int], TcpProxy],
    tmp_path: Path,
    on_exit: ExitStack,
) -> None:
    chance = random.Random(process_campaign_seed)
    dead = f"{on_exit.enter_context(black_hole())}," if one_server_is_dead else ""
    zookeeper = make_zookeeper()
    cluster = make_cluster(zookeeper=zookeeper)
    chroot = cluster.zookeeper_connect.partition("/")
    topic = make_topic(partitions=PARTITIONS, cluster=cluster)
    lab = Lab(cluster, topic, chance.choice(STRATEGIES), make_zk_client(cluster.zookeeper_connect), tmp_path)
    on_exit.callback(lambda: [process.kill() for process, _ in lab.members.values() if process.alive])

    def start_member() -> None:
        member = lab.start_member(make_proxy("127.0.0.1", zookeeper.port), chroot[1] + chroot[2], dead)
        wait_for(lambda: member in lab.owners(), f"partitions of {member}")

    for _ in range(3):
        start_member()
    lab.produce()
    lab.until_consumed()
    faults = [kill, stop_for_longer_than_the_session, cut_off_for_less, cut_off_for_more, restart_zookeeper]
    chance.shuffle(faults)
    for fault in faults:
        member = chance.choice(sorted(name for name, (process, _) in lab.members.items() if process.alive))
        fault(lab, member, zookeeper)
        if fault is kill:
            start_member()
        lab.produce()
        lab.until_consumed()
    for process, _ in lab.members.values():
        if process.alive:
            assert process.stop() == 0, process.recent_output()
    wait_for(lambda: lab.owners() == set(), "the group left in order")
    assert violations(lab.facts(), dict.fromkeys(lab.partitions, lab.written)) == []


def kill(lab: Lab, member: str, zookeeper: EmbeddedZooKeeper) -> None:
    process, _ = lab.members[member]
    process.kill()
    lab.produce()


def stop_for_longer_than_the_session(lab: Lab, member: str, zookeeper: EmbeddedZooKeeper) -> None:
    """Pause the member with SIGSTOP until the others have taken everything over, then resume it."""
    process, _ = lab.members[member]
    wait_for(lambda: member in lab.owners(), f"partitions of {member}")
    lab.produce(BACKLOG)
    process.pause()
    wait_for(lambda: lab.owners() and member not in lab.owners(), f"the end of {member}'s session")
    lab.until_consumed()
    process.resume()


def cut_off_for_less(lab: Lab, member: str, zookeeper: EmbeddedZooKeeper) -> None:
    _, proxy = lab.members[member]
    proxy.cut()
    lab.produce()
    time.sleep(SESSION_TIMEOUT_MS / 1000 / 4)
    proxy.restore()


def cut_off_for_more(lab: Lab, member: str, zookeeper: EmbeddedZooKeeper) -> None:
    """The proxy drops the data like a network that drops packets, so that both sides have to detect the loss."""
    _, proxy = lab.members[member]
    wait_for(lambda: member in lab.owners(), f"partitions of {member}")
    lab.produce(BACKLOG)
    proxy.freeze()
    wait_for(lambda: lab.owners() and member not in lab.owners(), f"the end of {member}'s session")
    lab.until_consumed()
    proxy.restore()


def restart_zookeeper(lab: Lab, member: str, zookeeper: EmbeddedZooKeeper) -> None:
    zookeeper.restart()
