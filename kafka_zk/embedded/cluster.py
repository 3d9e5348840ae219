"""One ZooKeeper and N brokers on this machine, all in one data directory.

    DIR/zookeeper/   zoo.cfg, zookeeper.log, data/
    DIR/broker-0/    server.properties, broker.log, data/ (the log directory)
    DIR/.lock        locked while the cluster runs
    DIR/cluster.json exists while it runs under ``kafka-zk up`` and contains its address (see ``control_socket``)
    DIR/security/    of a secured cluster, see ``cluster_security``

A later start with the same directory continues with its data.
"""

import fcntl
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from kafka_zk.base.clock import monotonic_s
from kafka_zk.base.types import TopicPartition
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster_security import (
    ADMIN,
    FOLDER,
    HOSTS,
    PROTOCOL,
    ClusterSecurity,
    check_still_open,
    is_secured,
)
from kafka_zk.embedded.errors import DataDirInUse, EmbeddedError, ProcessFailed
from kafka_zk.embedded.leadership import LeadershipCheck
from kafka_zk.embedded.ports import LOCALHOST, can_listen, free_ports
from kafka_zk.embedded.probe import ask_coordinator
from kafka_zk.embedded.process import POLL_INTERVAL_S
from kafka_zk.embedded.properties_file import check_log_dir
from kafka_zk.embedded.supervisor import Supervisor
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.security_keys import zookeeper_security
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity

if TYPE_CHECKING:
    from kafka_zk.embedded.faults import ClusterFaults

START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 30
LEADERS_INTERVAL_S = 0.1
NAMED_COUNT = 5
ENDED_AT_ONCE = -signal.SIGTERM  # exit code of a broker that was stopped before it had begun to work
LISTENER_KEYS = frozenset(
    ("listeners", "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name",
     "security.inter.broker.protocol")
)  # fmt: skip
"""Keys that could give a secured cluster a listener without security."""
SESSION_TIMEOUT_MS = 6_000  # with Kafka's 18 s, a crashed broker would restart slowly


class EmbeddedCluster:
    """Broker processes with ids from 0, with an embedded ZooKeeper or a given one.

    Args:
        data_dir: created if absent; see the module docstring.
        broker_count: number of brokers.
        port: the port of broker 0, followed by those of the others; 0: free ports.
        zookeeper: an external connection string, or an ``EmbeddedZooKeeper`` (started if needed, and stopped with the
            cluster only if it was started here); None: a new one in ``data_dir``.
        properties: Kafka's keys for every broker.
        zookeeper_port: for the new ZooKeeper; 0: a free port.
        tick_time_ms, force_sync: see ``EmbeddedZooKeeper``.
        trace: a directory, created if absent, for the events of every broker.
        supervised: close the session of a dead broker (see ``supervisor``) instead of letting it expire.
        secured: brokers and clients must log in over TLS (see ``cluster_security``).
        takes_faults: the brokers take named faults (see ``faults``).
    Raises: UnusableDataDir; EmbeddedError if ``properties`` contradict ``secured``.

    Attributes:
        security: the files of a secured cluster; set by ``start_zookeeper``.
        newly_secured: True if the brokers existed and were open before this start.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        broker_count: int = 3,
        port: int = 0,
        zookeeper: str | EmbeddedZooKeeper | None = None,
        properties: Mapping[str, str] | None = None,
        zookeeper_port: int = 0,
        tick_time_ms: int = 2000,
        force_sync: bool = True,
        trace: Path | None = None,
        supervised: bool = True,
        secured: bool = False,
        takes_faults: bool = False,
    ) -> None:
        self._takes_faults = takes_faults
        self._faults: ClusterFaults | None = None
        self.data_dir = data_dir.resolve()
        self.security: ClusterSecurity | None = None
        self.newly_secured = False
        self._secured = secured
        self.trace = trace
        self.supervised = supervised
        self._port = port
        self._broker_count = broker_count
        let_in = zookeeper.client_properties if isinstance(zookeeper, EmbeddedZooKeeper) else {}
        self._properties = {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS), **let_in, **(properties or {})}
        if secured and (undone := sorted(LISTENER_KEYS & self._properties.keys())):
            raise EmbeddedError(f"{undone[0]}: a secured cluster sets it for each broker")
        if "log.dirs" not in self._properties:
            check_log_dir(self.data_dir)
        self.zookeeper: EmbeddedZooKeeper | None
        if isinstance(zookeeper, str):
            self.zookeeper, self._external_connect = None, zookeeper
        else:
            self.zookeeper = zookeeper or EmbeddedZooKeeper(
                self.data_dir / "zookeeper", port=zookeeper_port, tick_time_ms=tick_time_ms, force_sync=force_sync
            )
        self._stops_zookeeper = False
        self.brokers: list[BrokerProcess] = []
        self._loading: list[BrokerProcess] = []
        self._starting: list[BrokerProcess] = []  # until ``wait_ready``
        self.leaderless: dict[TopicPartition, list[int]] = {}
        """Set by ``wait_ready``: partitions that no running broker can lead, with their replicas."""
        self._lock: IO[str] | None = None

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers`` for clients: the address of each broker."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def zookeeper_connect(self) -> str:
        """``zookeeper.connect`` of the brokers."""
        return self.zookeeper.connect_string if self.zookeeper else self._external_connect

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout of brokers; an external ZooKeeper may grant another one."""
        wanted = int(self._properties["zookeeper.session.timeout.ms"])
        return self.zookeeper.granted_timeout_ms(wanted) if self.zookeeper else wanted

    def start(self) -> Self:
        """Start everything; returns when all brokers are registered, know the controller and serve requests.

        After a failure, nothing is left running. Raises: EmbeddedError.
        """
        try:
            self.start_zookeeper()
            self.start_brokers()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def start_zookeeper(self) -> None:
        """The first step of ``start``: lock the directory and start ZooKeeper, unless it is running. While ZooKeeper
        starts, the brokers' processes load their modules.

        Raises: EmbeddedError, also if a broker's port is taken, or if a secured cluster should no longer be secured.
            Nothing was started then.
        """
        self._check_ports()
        self._acquire_lock()
        if self._secured:
            was_started = (self.data_dir / "broker-0" / "server.properties").exists()  # the folder is created earlier
            self.newly_secured = was_started and not is_secured(self.data_dir)
            self.security = ClusterSecurity.prepared(self.data_dir / FOLDER)
        else:
            check_still_open(self.data_dir)
        if self.zookeeper and not self.zookeeper.alive:
            self._stops_zookeeper = True
            try:
                self.zookeeper.start(meanwhile=self.load_brokers)
            except BaseException:
                self._kill_loading()
                raise

    def load_brokers(self) -> None:
        """Start the brokers' processes early, for example while ZooKeeper starts: they load their modules, and wait for
        ``start_brokers``. Another call replaces them."""
        self._kill_loading()  # those of an earlier attempt, if ZooKeeper needed another port
        self._loading = self._new_brokers()
        for broker in self._loading:
            broker.load()

    def _kill_loading(self) -> None:
        while self._loading:
            self._loading.pop().kill()

    def start_brokers(self) -> None:
        """The second step of ``start``: start the brokers without waiting for them."""
        if self.trace is not None:
            self.trace.mkdir(parents=True, exist_ok=True)
        if self.security is not None:
            self._write_users(self.security)
        brokers, self._loading = self._loading or self._new_brokers(), []
        self.brokers += brokers
        self._starting = brokers
        for broker in brokers:
            broker.start()
        self._write_client_files()  # a container's address is known only after its start

    def add_broker(self) -> BrokerProcess:
        """Start another broker with the next id on a free port, and wait until all brokers know it."""
        broker = self._broker(len(self.brokers), free_ports(1)[0])
        self.brokers.append(broker)
        broker.start()
        self._write_client_files()
        self.wait_ready()
        return broker

    def _new_brokers(self) -> list[BrokerProcess]:
        first_id = len(self.brokers)
        return [self._broker(broker_id, port) for broker_id, port in enumerate(self._choose_ports(), first_id)]

    def _broker(self, broker_id: int, port: int) -> BrokerProcess:
        return self._new_broker(self.data_dir / f"broker-{broker_id}", broker_id, port)

    def _new_broker(self, folder: Path, broker_id: int, port: int) -> BrokerProcess:
        properties = {**self._secured_listeners(broker_id, {PROTOCOL: port}), **self._properties}
        return BrokerProcess(
            folder, broker_id, port, self.zookeeper_connect, properties, self.trace, self._supervisor(), self.login,
            takes_faults=self._takes_faults,
        )  # fmt: skip

    def _secured_listeners(self, broker_id: int, ports: Mapping[str, int]) -> dict[str, str]:
        """The properties for listeners, of which the first is for brokers; empty without security."""
        if self.security is None:
            return {}
        listeners = ",".join(f"{name}://{LOCALHOST}:{port}" for name, port in ports.items())
        return {"listeners": listeners, **self._security_properties(broker_id, ports)}

    def _security_properties(
        self, broker_id: int, listeners: Iterable[str], hosts: Sequence[str] = HOSTS
    ) -> dict[str, str]:
        """Like ``ClusterSecurity.broker_properties``; empty without security. With an authorizer, brokers become super
        users.
        """
        if self.security is None:
            return {}
        brokers = {"super.users": f"User:{ADMIN}"} if "authorizer.class.name" in self._properties else {}
        return {**self.security.broker_properties(broker_id, listeners, hosts), **brokers}

    @property
    def login(self) -> ClientSecurity:
        """The brokers' own login, for clients of a secured cluster."""
        return NO_SECURITY if self.security is None else self.security.login()

    def _write_client_files(self) -> None:
        if self.security is not None:
            self.security.write_client_files(self.bootstrap)

    def _write_users(self, security: ClusterSecurity) -> None:
        client = KazooBlockingClient(
            self.zookeeper_connect, SESSION_TIMEOUT_MS, security=zookeeper_security(self._properties)
        )
        try:
            client.start()
            run_blocking(security.write_users(client))
        except RegistryError as error:
            raise ProcessFailed(f"the users of the cluster cannot be written to ZooKeeper: {error}") from error
        finally:
            client.close()

    def _supervisor(self) -> Supervisor | None:
        return Supervisor.on(self.zookeeper_connect, self._properties) if self.supervised else None

    def _choose_ports(self) -> Sequence[int]:
        if not self._port:
            return free_ports(self._broker_count)
        return range(self._port, self._port + self._broker_count)

    def _check_ports(self) -> None:
        wanted = self._choose_ports() if self._port else ()
        if taken := [port for port in wanted if not can_listen(port)]:
            raise EmbeddedError(f"port {taken[0]} is in use; choose other ports with --port")

    def wait_ready(
        self, timeout_s: float = START_TIMEOUT_S, on_registered: Callable[[BrokerProcess], None] | None = None
    ) -> None:
        """Wait until every running broker serves and knows all running brokers and the controller, and until each
        partition that one of them can lead has a responsive leader.

        Args:
            on_registered: called once for each broker, when any broker knows it.
        Raises: ProcessFailed if a broker ends, also since ``start_brokers``, or at the timeout.
        """
        deadline = monotonic_s() + timeout_s
        starting, self._starting = self._starting, []
        wait_ready(self.brokers, timeout_s, on_registered, starting)
        self._wait_for_leaders(deadline)

    def _wait_for_leaders(self, deadline: float) -> None:
        try:
            check = LeadershipCheck(self.zookeeper_connect, self._properties, self.login)
            try:
                self.leaderless = self._leaderless_when_led(check, deadline)
            finally:
                check.close()
        except RegistryError as error:
            raise ProcessFailed(f"the leaders of the partitions cannot be checked: {error}") from error

    def _leaderless_when_led(self, check: LeadershipCheck, deadline: float) -> dict[TopicPartition, list[int]]:
        running = [broker for broker in self.brokers if broker.process.exit_code is None]
        while (missing := check.missing({broker.broker_id: broker.port for broker in running})) != set():
            for broker in running:
                broker.process.check_alive()
            if monotonic_s() > deadline:
                named = "the partitions" if missing is None else ", ".join(map(str, sorted(missing)[:NAMED_COUNT]))
                raise ProcessFailed(f"{named} had no leader that responded in time{running[0].process.recent_output()}")
            time.sleep(LEADERS_INTERVAL_S)
        return check.leaderless({broker.broker_id for broker in running})

    def add_user(self, name: str) -> dict[str, str]:
        """Add a user to a running secured cluster. Returns when every broker accepts the login, with Kafka's keys for
        clients.

        Raises: EmbeddedError.
        """
        if self.security is None:
            raise EmbeddedError(f"user {name}: the cluster is not secured")
        self.security.add_user(name)
        self._write_users(self.security)
        login = self.security.login(name)
        deadline = monotonic_s() + START_TIMEOUT_S
        for broker in self.brokers:
            while broker.alive and broker.view(login) is None:
                if monotonic_s() > deadline:
                    raise ProcessFailed(f"{broker.process.name} rejects the login of {name}")
                time.sleep(POLL_INTERVAL_S)
        return self.security.properties(name)

    def restart_broker(self, broker_id: int) -> None:
        """Start an ended broker with its port and data, and wait until all brokers know it."""
        self.brokers[broker_id].start()
        self.wait_ready()

    def controller_id(self) -> int:
        """The controller's broker id according to the first responsive broker; -1 if unknown."""
        views = (broker.view() for broker in self.brokers if broker.alive)
        return next((view.controller_id for view in views if view), -1)

    def coordinator_id(self, group: str) -> int:
        """The broker id of a group's coordinator according to the controller; -1 if unknown."""
        controller_id = self.controller_id()
        if controller_id < 0:
            return -1
        return ask_coordinator(LOCALHOST, self.brokers[controller_id].port, group, self.login)

    @property
    def faults(self) -> "ClusterFaults":
        """The named faults of the cluster. Raises: EmbeddedError if its brokers take no faults."""
        if not self._takes_faults:
            raise EmbeddedError("the brokers of this cluster take no faults; start the cluster with takes_faults")
        if self._faults is None:
            from kafka_zk.embedded.faults import ClusterFaults  # imported here, because it loads an HTTP client

            self._faults = ClusterFaults(self)
        return self._faults

    def stop(self) -> list[str]:
        """Stop all brokers, then ZooKeeper. Returns a sentence for each broker that did not end cleanly."""
        self._end_faults(is_responding=True)
        running = [broker for broker in self.brokers if broker.alive]
        for broker in running:
            broker.process.terminate()
        deadline = monotonic_s() + STOP_TIMEOUT_S
        complaints = []
        for broker in running:
            code = broker.stop(max(0.1, deadline - monotonic_s()))
            if code not in (0, ENDED_AT_ONCE):
                complaints.append(broker.process.describe_end())
        self._kill_loading()
        self._stop_zookeeper()
        self._release_lock()
        return complaints

    def kill(self) -> None:
        """Kill everything, as in a crash."""
        self._end_faults(is_responding=False)
        self._kill_loading()
        for broker in self.brokers:
            broker.kill()
        if self.zookeeper and self._stops_zookeeper:
            self.zookeeper.kill_if_started()
        self._release_lock()

    def _end_faults(self, *, is_responding: bool) -> None:
        if self._faults is not None:
            from kafka_zk.embedded.faults import end_with

            end_with(self, is_responding=is_responding)

    def _stop_zookeeper(self) -> None:
        if self.zookeeper and self._stops_zookeeper:
            self.zookeeper.stop()

    def _acquire_lock(self) -> None:
        if self._lock is not None:
            return
        self.data_dir.mkdir(parents=True, exist_ok=True)
        lock = (self.data_dir / ".lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise DataDirInUse(f"another cluster is running in {self.data_dir}") from None
        self._lock = lock

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self if self.brokers else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def wait_ready(
    brokers: Sequence[BrokerProcess],
    timeout_s: float = START_TIMEOUT_S,
    on_registered: Callable[[BrokerProcess], None] | None = None,
    starting: Collection[BrokerProcess] = (),
) -> None:
    """Like ``EmbeddedCluster.wait_ready`` for any brokers, but without waiting for partitions' leaders.

    ``starting``: brokers that must not have ended before; others may have.
    """
    waiting = [broker for broker in brokers if broker.process.exit_code is None or broker in starting]
    expected = {broker.broker_id for broker in waiting}
    seen: set[int] = set()
    deadline = monotonic_s() + timeout_s
    while True:
        views = [broker.view() for broker in waiting]
        known = set().union(*(view.broker_ids for view in views if view))
        for broker in waiting:
            if broker.broker_id in known - seen and on_registered:
                on_registered(broker)
        seen |= known
        ready = [bool(view and expected <= view.broker_ids and view.controller_id >= 0) for view in views]
        if all(ready):
            return
        for broker in waiting:
            broker.process.check_alive()
        if monotonic_s() > deadline:
            late = waiting[ready.index(False)].process
            raise ProcessFailed(f"{late.name} was not ready within {timeout_s:g} s{late.recent_output()}")
        time.sleep(POLL_INTERVAL_S)
