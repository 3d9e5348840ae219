"""The cluster for the lesson's chapters on brokers: three of them, with a replica of each partition on each."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.events import ControllerEvent
from kafka_zk.broker.replica.events import ReplicaEvent
from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.session_expiry import SessionUnknown, expire_session
from kafka_zk.learn.lesson.errors import LessonFailed
from kafka_zk.learn.lesson.replica_log import ReplicaLog, read_log
from kafka_zk.learn.lesson.teacher import Teacher
from kafka_zk.recorder.timeline.cluster_lines import ClusterEvents, ClusterLines
from kafka_zk.recorder.timeline.cluster_observer import ClusterObserver
from kafka_zk.recorder.timeline.trace_file import TraceFollower
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.client import ZnodeStat
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.client.events import RegistryEvent
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.controller import ControllerRegistry
from kafka_zk.registry.znodes.brokers import broker_path
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch, decode_state, state_path

PATIENCE_S = 60
BROKERS = 3
FIRST_CONTROLLER = 0
SESSION_TIMEOUT_MS = 5_000
FETCH_WAIT_MS = 200
"""So long a leader holds back a follower's Fetch while there is nothing new."""
_TICK_TIME_MS = 500
_POLL_MS = 50
_LATE_MS = 300
"""Brokers may write what they tell so much later."""
_REQUEST_TIMEOUT_MS = 2_000
_PROPERTIES = {
    "default.replication.factor": str(BROKERS),
    "auto.leader.rebalance.enable": "false",  # leaders change only when the lesson makes them
    "replica.fetch.wait.max.ms": str(FETCH_WAIT_MS),
    "replica.fetch.backoff.ms": "200",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
}
_SHOWN = (ControllerEvent, ReplicaEvent, RegistryEvent)


class BrokerRoom:
    """Brokers 0 to 2, of which broker 0 is the first controller, and a ZooKeeper; a context manager.

    ``client``: of its ZooKeeper, for the lesson's own reads and writes.

    Raises: EmbeddedError, KafkaError, RegistryError; LessonFailed when what must come does not come.
    """

    def __init__(self, data_dir: Path, teacher: Teacher, verbose: bool = False) -> None:
        self.teacher = teacher
        self.verbose = verbose
        self._data_dir = data_dir
        self._trace = data_dir / "trace"
        self._cluster = EmbeddedCluster(
            data_dir,
            broker_count=1,  # the others come later, so that it is known who is the controller
            tick_time_ms=_TICK_TIME_MS,
            force_sync=False,
            properties=_PROPERTIES,
            trace=self._trace,
            supervised=False,
        )
        self._closing = ExitStack()
        self._paused: set[int] = set()
        self._topics: dict[str, int] = {}  # how often a name was wanted

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def zookeeper(self) -> str:
        return self._cluster.zookeeper_connect

    def __enter__(self) -> Self:
        self._cluster.start()
        self._closing.callback(self._cluster.stop)
        self._closing.callback(self.dismiss)
        try:
            for _ in range(1, BROKERS):
                self._cluster.add_broker()
            self.client = self._closing.enter_context(KazooBlockingClient(self.zookeeper))
            self.teacher.room_opened(self._data_dir / "zookeeper" / "data", self._trace)
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def dismiss(self) -> None:
        """Nobody is paused any more."""
        self.teacher.all_seen()
        for broker_id in sorted(self._paused):
            self.resume(broker_id)

    def repair(self) -> None:
        """All brokers run and serve, and broker 0 is the controller."""
        self.dismiss()
        dead = [broker for broker in self._cluster.brokers if not broker.alive]
        for broker in dead:
            broker.start()
        if dead:
            self._cluster.wait_ready()
        self._make_controller(FIRST_CONTROLLER)

    # --- what the lesson does ---

    def topic(self, name: str, leader: int, configs: Mapping[str, str] | None = None) -> TopicPartition:
        """The only partition of a new topic, led by this broker, with the others in its ISR."""
        self._cluster.wait_ready()  # a controller that is new may not have told everybody yet that all brokers live
        count = self._topics[name] = self._topics.get(name, 0) + 1
        tp = TopicPartition(name if count == 1 else f"{name}-{count}", 0)
        replicas = [leader, *(each for each in range(BROKERS) if each != leader)]
        with BlockingAdmin(None, bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(tp.topic, configs=configs or {}, assignment={0: replicas})])
        self.wait_state(tp, lambda state: len(state.isr) == BROKERS)
        return tp

    def kill(self, broker_id: int, *, expire: bool) -> None:
        """SIGKILL; ``expire``: its session is over at once, not only when ZooKeeper has waited in vain."""
        self._cluster.brokers[broker_id].kill()
        self._paused.discard(broker_id)
        if expire:
            self.expire(broker_id)

    def expire(self, broker_id: int) -> None:
        """End a broker's session, unless that is over already."""
        found = self.znode(broker_path(broker_id))
        if found is not None:
            host, port = connect_string.parse(self.zookeeper).servers[0]
            with suppress(SessionUnknown):
                expire_session(host, port, found[1].ephemeral_owner)

    def restart(self, *broker_ids: int) -> None:
        """Start brokers again, without waiting for them."""
        for broker_id in broker_ids:
            self._cluster.brokers[broker_id].start()

    def pause(self, *broker_ids: int) -> None:
        """SIGSTOP."""
        for broker_id in broker_ids:
            self._cluster.brokers[broker_id].pause()
            self._paused.add(broker_id)

    def resume(self, *broker_ids: int) -> None:
        """SIGCONT."""
        for broker_id in broker_ids:
            self._cluster.brokers[broker_id].resume()
            self._paused.discard(broker_id)

    def producer(self, acks: str, retries: int | None = None) -> BlockingProducer:
        """A producer; close it."""
        options = {} if retries is None else {"retries": retries}
        return BlockingProducer(
            None,
            bootstrap_servers=self.bootstrap,
            acks=acks,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=PATIENCE_S * 1000,
            **options,
        )

    def read(self, tp: TopicPartition) -> list[str]:
        """Every record of a partition that a consumer can read now."""
        with BlockingReader(None, bootstrap_servers=self.bootstrap) as reader:
            reader.assign({tp: "earliest"})
            end = reader.end_offsets([tp])
            if end == reader.beginning_offsets([tp]):
                return []
            return [(record.value or b"").decode() for records in reader.batches(end) for record in records]

    def elect_unclean(self, tp: TopicPartition) -> None:
        """Have a replica elected that is not in the ISR."""
        with BlockingAdmin(None, bootstrap_servers=self.bootstrap) as admin:
            (refusal,) = admin.elect_leaders([tp], unclean=True).values()
        if refusal is not None:
            raise LessonFailed(f"no leader was elected for {tp}: {refusal}")

    def wait_copied(self, tp: TopicPartition, count: int) -> None:
        """Wait until consumers can read so many records, which is when the whole ISR has them."""
        with BlockingReader(None, bootstrap_servers=self.bootstrap) as reader:
            self.wait(lambda: reader.end_offsets([tp])[tp] >= count, f"{count} records in {tp}")

    def replica_log(self, broker_id: int, tp: TopicPartition) -> ReplicaLog:
        """What lies in the files of a replica."""
        return read_log(self._cluster.brokers[broker_id].log_dir, tp)

    # --- what there is in ZooKeeper ---

    def controller_id(self) -> int | None:
        """Whom ``/controller`` names."""
        return run_blocking(ControllerRegistry(self.client).current())

    def znode(self, path: str) -> tuple[str, ZnodeStat] | None:
        """What a znode has in it; None if it is not there."""
        try:
            data, stat = run_blocking(self.client.get(path))
        except NoNode:
            return None
        return (data or b"").decode(), stat

    def show_znode(self, path: str, data_matters: bool = True) -> None:
        """A line on a znode: its data and version if they matter, and its session if it is an ephemeral one."""
        found = self.znode(path)
        if found is None:
            self.teacher.show(f"{path}  is not there")
            return
        data, stat = found
        told = [data, f"znode version {stat.version}"] if data_matters else []
        if stat.ephemeral_owner:
            told.append(f"ephemeral, of session {stat.ephemeral_owner:#x}")
        self.teacher.show(f"{path}  {', '.join(told)}")

    def show_state(self, tp: TopicPartition) -> None:
        """The state znode of a partition."""
        self.show_znode(state_path(*tp))

    def state(self, tp: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        """Leader, ISR and epochs of a partition; None before the controller has written them."""
        found = self.znode(state_path(*tp))
        return None if found is None else decode_state(*tp, found[0].encode(), found[1].version)

    def wait_state(
        self, tp: TopicPartition, is_right: Callable[[LeaderIsrAndControllerEpoch], bool]
    ) -> LeaderIsrAndControllerEpoch:
        """Wait until the state znode says what it should; returns it. Raises: LessonFailed."""
        found: list[LeaderIsrAndControllerEpoch] = []

        def right() -> bool:
            state = self.state(tp)
            found[:] = [state] if state is not None else []
            return state is not None and is_right(state)

        self.wait(right, f"another state of {tp}")
        return found[0]

    def wait_in_isr(self, tp: TopicPartition, broker_id: int) -> LeaderIsrAndControllerEpoch:
        """Wait until a broker is in the ISR; returns the state."""
        return self.wait_state(tp, lambda state: broker_id in state.isr)

    def wait_out_of_isr(self, tp: TopicPartition, broker_id: int) -> LeaderIsrAndControllerEpoch:
        """Wait until a broker is not in the ISR; returns the state."""
        return self.wait_state(tp, lambda state: broker_id not in state.isr)

    def wait_registered(self, *broker_ids: int) -> None:
        """Wait until brokers have znodes in ``/brokers/ids`` again."""
        paths = [broker_path(broker_id) for broker_id in broker_ids]
        self.wait(lambda: None not in map(self.znode, paths), "brokers to register")

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Wait, and take in what happens meanwhile. Raises: LessonFailed."""
        end_s = time.monotonic() + PATIENCE_S
        while not done():
            if time.monotonic() > end_s:
                raise LessonFailed(f"waited {PATIENCE_S} s in vain for {what}")
            self.client.process(_POLL_MS)

    def _make_controller(self, broker_id: int) -> None:
        """The sessions of other controllers end until it is this one's turn."""
        while (current := self.controller_id()) != broker_id:
            if current is not None:
                self.expire(current)
            self._wait_for_controller(other_than=current)
        self.wait_registered(*range(BROKERS))

    def _wait_for_controller(self, other_than: int | None) -> None:
        self.wait(lambda: self.controller_id() not in (None, other_than), "another controller")

    @contextmanager
    def watched(self) -> Iterator["News"]:
        """What happens in the cluster within the block."""
        news = News(TraceFollower(self._trace, from_start=False), self.verbose, self.client.process)
        observer = ClusterObserver(self.client, news.add)
        self.client.process(_POLL_MS)
        try:
            yield news
        finally:
            observer.close()


class News:
    """What the znodes and the brokers' traces tell of what happens after ``begin``."""

    def __init__(self, follower: TraceFollower, verbose: bool, process: Callable[[float], None]) -> None:
        self._follower = follower
        self._verbose = verbose
        self._process = process
        self._events = ClusterEvents()
        self._since_ms = int(time.time() * 1000)
        self.all: list[Event] = []
        """Since ``begin``."""

    def begin(self) -> None:
        """From now on things count, in seconds from now."""
        self._since_ms = int(time.time() * 1000)
        self.all.clear()
        self._events = ClusterEvents()

    def add(self, event: Event) -> None:
        if event.time_ms >= self._since_ms:
            self._events.add(event)
            self.all.append(event)

    def seconds(self, time_ms: int | None = None) -> str:
        """How long after ``begin`` that was, or now is."""
        return f"{((time_ms or int(time.time() * 1000)) - self._since_ms) / 1000:4.1f} s"

    def lines(self) -> Iterator[str]:
        """A line for each thing that happened."""
        self._process(_LATE_MS)
        for traced in self._follower.read():
            if isinstance(traced.event, _SHOWN):
                self.add(traced.event)
        yield from ClusterLines(self._events, verbose=self._verbose, time_text=self.seconds).lines()
