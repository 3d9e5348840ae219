"""The cluster of the lesson's chapters about brokers."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.session_expiry import SessionUnknown, expire_session
from kafka_zk.learn.lesson.cluster_room import PATIENCE_S, ClusterRoom
from kafka_zk.learn.lesson.errors import LessonFailed
from kafka_zk.learn.lesson.replica_log import ReplicaLog, read_log
from kafka_zk.learn.lesson.teacher import Teacher
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.controller import ControllerRegistry
from kafka_zk.registry.znodes.brokers import broker_path
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch, decode_state, state_path

BROKERS = 3
FIRST_CONTROLLER = 0
SESSION_TIMEOUT_MS = 5_000
FETCH_WAIT_MS = 200
"""A leader holds a follower's Fetch for this time when there is nothing new."""
_REQUEST_TIMEOUT_MS = 2_000
_PROPERTIES = {
    "default.replication.factor": str(BROKERS),
    "auto.leader.rebalance.enable": "false",  # only the lesson changes leaders
    "replica.fetch.wait.max.ms": str(FETCH_WAIT_MS),
    "replica.fetch.backoff.ms": "200",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
}


class BrokerRoom(ClusterRoom):
    """Brokers 0 to 2, each with a replica of every partition; broker 0 is the first controller."""

    def __init__(self, data_dir: Path, teacher: Teacher, verbose: bool = False) -> None:
        # The other brokers start later, so that the controller is known.
        make_cluster = partial(EmbeddedCluster, broker_count=1, properties=_PROPERTIES, supervised=False)
        super().__init__(data_dir, teacher, verbose, make_cluster)
        self._paused: set[int] = set()

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def _prepare(self) -> None:
        self._closing.callback(self.dismiss)
        for _ in range(1, BROKERS):
            self._cluster.add_broker()

    def dismiss(self) -> None:
        self.teacher.all_seen()
        for broker_id in sorted(self._paused):
            self.resume(broker_id)

    def repair(self) -> None:
        """Start the dead brokers, and make broker 0 the controller."""
        self.dismiss()
        dead = [broker for broker in self._cluster.brokers if not broker.alive]
        for broker in dead:
            broker.start()
        if dead:
            self._cluster.wait_ready()
        self._make_controller(FIRST_CONTROLLER)

    def topic(self, name: str, leader: int, configs: Mapping[str, str] | None = None) -> TopicPartition:
        """Create a partition that broker ``leader`` leads, with all brokers in the ISR."""
        self._cluster.wait_ready()  # a new controller may not have announced all live brokers yet
        tp = self._new_name(name)
        replicas = [leader, *(each for each in range(BROKERS) if each != leader)]
        with BlockingAdmin(None, bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(tp.topic, configs=configs or {}, assignment={0: replicas})])
        self.wait_state(tp, lambda state: len(state.isr) == BROKERS)
        return tp

    def kill(self, broker_id: int, *, expire: bool) -> None:
        """Kill a broker. ``expire``: its session ends now instead of at the timeout."""
        self._cluster.brokers[broker_id].kill()
        self._paused.discard(broker_id)
        if expire:
            self.expire(broker_id)

    def expire(self, broker_id: int) -> None:
        found = self.znode(broker_path(broker_id))
        if found is not None:
            host, port = connect_string.parse(self.zookeeper).servers[0]
            with suppress(SessionUnknown):
                expire_session(host, port, found[1].ephemeral_owner)

    def restart(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self._cluster.brokers[broker_id].start()

    def pause(self, *broker_ids: int) -> None:
        """Stop the processes with SIGSTOP."""
        for broker_id in broker_ids:
            self._cluster.brokers[broker_id].pause()
            self._paused.add(broker_id)

    def resume(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self._cluster.brokers[broker_id].resume()
            self._paused.discard(broker_id)

    def producer(self, acks: str, retries: int | None = None) -> BlockingProducer:
        """Make a producer, which the caller closes."""
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
        """All records that a consumer can read now."""
        with BlockingReader(None, bootstrap_servers=self.bootstrap) as reader:
            reader.assign({tp: "earliest"})
            end = reader.end_offsets([tp])
            if end == reader.beginning_offsets([tp]):
                return []
            return [(record.value or b"").decode() for records in reader.batches(end) for record in records]

    def elect_unclean(self, tp: TopicPartition) -> None:
        """Let a replica outside of the ISR become the leader."""
        with BlockingAdmin(None, bootstrap_servers=self.bootstrap) as admin:
            (refusal,) = admin.elect_leaders([tp], unclean=True).values()
        if refusal is not None:
            raise LessonFailed(f"no leader was elected for {tp}: {refusal}")

    def wait_copied(self, tp: TopicPartition, count: int) -> None:
        """Wait until consumers can read ``count`` records, which means that the whole ISR has them."""
        with BlockingReader(None, bootstrap_servers=self.bootstrap) as reader:
            self.wait(lambda: reader.end_offsets([tp])[tp] >= count, f"{count} records in {tp}")

    def replica_log(self, broker_id: int, tp: TopicPartition) -> ReplicaLog:
        return read_log(self._cluster.brokers[broker_id].log_dir, tp)

    def controller_id(self) -> int | None:
        return run_blocking(ControllerRegistry(self.client).current())

    def show_state(self, tp: TopicPartition) -> None:
        self.show_znode(state_path(*tp))

    def state(self, tp: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        """None until the controller has written the state."""
        found = self.znode(state_path(*tp))
        return None if found is None else decode_state(*tp, found[0].encode(), found[1].version)

    def wait_state(
        self, tp: TopicPartition, is_right: Callable[[LeaderIsrAndControllerEpoch], bool]
    ) -> LeaderIsrAndControllerEpoch:
        """Wait until ``is_right`` accepts the state; returns it. Raises LessonFailed."""
        found: list[LeaderIsrAndControllerEpoch] = []

        def right() -> bool:
            state = self.state(tp)
            found[:] = [state] if state is not None else []
            return state is not None and is_right(state)

        self.wait(right, f"another state of {tp}")
        return found[0]

    def wait_in_isr(self, tp: TopicPartition, broker_id: int) -> LeaderIsrAndControllerEpoch:
        return self.wait_state(tp, lambda state: broker_id in state.isr)

    def wait_out_of_isr(self, tp: TopicPartition, broker_id: int) -> LeaderIsrAndControllerEpoch:
        return self.wait_state(tp, lambda state: broker_id not in state.isr)

    def wait_registered(self, *broker_ids: int) -> None:
        paths = [broker_path(broker_id) for broker_id in broker_ids]
        self.wait(lambda: None not in map(self.znode, paths), "brokers to register")

    def _make_controller(self, broker_id: int) -> None:
        """End the sessions of other controllers until this broker is the controller."""
        while (current := self.controller_id()) != broker_id:
            if current is not None:
                self.expire(current)
            self._wait_for_controller(other_than=current)
        self.wait_registered(*range(BROKERS))

    def _wait_for_controller(self, other_than: int | None) -> None:
        self.wait(lambda: self.controller_id() not in (None, other_than), "another controller")
