"""The replication campaign with more faults: full disks, stepped clocks, and a ZooKeeper ensemble of three whose leader
dies."""

from collections.abc import Sequence
from pathlib import Path

from tests.peers.processes import wait_until
from tests.soak import zookeeper_log
from tests.soak.machine import FaultyMachine
from tests.soak.replicated_cluster import SESSION_TIMEOUT_S, START_S, Broker, Kind, ReplicatedCluster
from tests.soak.replication_rounds import ACTIONS, Fault, ReplicationRounds
from tests.soak.zookeeper_ensemble import ZooKeeperEnsemble

FULL_DISK, CLOCK_STEP, ZOOKEEPER_LEADER = "full disk", "clock step", "ZooKeeper's leader is killed"

_MOST_S = 3000
"""Maximum step of a clock: brokers refuse records whose timestamp is more than an hour ahead of their clock."""


class FaultyMachinesCluster(ReplicatedCluster):
    """Brokers on machines of their own, and three servers of ZooKeeper."""

    def __init__(self, folder: Path, kinds: Sequence[Kind]) -> None:
        super().__init__(folder, kinds)
        self.ensemble = ZooKeeperEnsemble(folder / "ensemble")

    def machine(self, folder: Path, log_dir: Path) -> FaultyMachine:
        return FaultyMachine(folder, log_dir)

    @property
    def zookeeper_ports(self) -> list[int]:
        return self.ensemble.ports

    def zookeeper_writes(self) -> list[zookeeper_log.Write]:
        """All changes of znodes. Those that a server missed while it was dead may be only in its snapshot, but they are
        in another server's log.
        """
        logs = [zookeeper_log.writes(folder) for folder in self.ensemble.data_dirs]
        return sorted({write for log in logs for write in log}, key=lambda write: write.zxid)

    def _start_zookeeper(self) -> str:
        return self.ensemble.__enter__().connect_string

    def _kill_zookeeper(self) -> None:
        self.ensemble.__exit__()


class MachineFault(Fault):
    """A broker's machine fails, or ZooKeeper does."""

    _killed = 0
    _cluster: FaultyMachinesCluster

    @property
    def ends_session(self) -> bool:
        return self.action == FULL_DISK or super().ends_session

    def begin(self) -> None:
        if self.action == FULL_DISK:
            machine_of(self.victim).fill_disk()
        elif self.action == CLOCK_STEP:
            machine_of(self.victim).step_clock(self._step_s)
        elif self.action == ZOOKEEPER_LEADER:
            self._wait_zookeeper()
            self._killed = self._cluster.ensemble.leader() or 0
            self._cluster.ensemble.kill(self._killed)
        else:
            super().begin()

    @property
    def _step_s(self) -> float:
        """The clock step in seconds, forward or back, derived from the fault's duration."""
        return (2 * self._seconds / SESSION_TIMEOUT_S - 1) * _MOST_S

    def end(self, *, at_once: bool) -> None:
        """End the fault. A broker ends by itself when its only disk fails. A clock keeps its offset until it is stepped
        again."""
        if self.action == FULL_DISK:
            wait_until(lambda: not self.victim.process.running, START_S, f"broker {self.victim.broker_id} to give up")
            machine_of(self.victim).free_disk()
            self._wait_expired()
            self.victim.start()
        elif self.action == ZOOKEEPER_LEADER:
            self._cluster.ensemble.start(self._killed)
            self._wait_zookeeper()
        elif self.action != CLOCK_STEP:
            super().end(at_once=at_once)


    def _wait_zookeeper(self) -> None:
        wait_until(lambda: self._cluster.ensemble.leader() is not None, START_S, "a leader of ZooKeeper")


class FaultyMachinesRounds(ReplicationRounds):
    kind = "replication, also full disks, clock steps, an ensemble"
    fault = MachineFault
    actions = (FULL_DISK, FULL_DISK, CLOCK_STEP, CLOCK_STEP, ZOOKEEPER_LEADER, ZOOKEEPER_LEADER, *ACTIONS)


def machine_of(broker: Broker) -> FaultyMachine:
    assert isinstance(broker.machine, FaultyMachine)
    return broker.machine
