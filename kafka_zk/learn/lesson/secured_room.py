"""The cluster for the lesson's chapter on ACLs and quotas: two brokers to which every client logs in."""

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER
from kafka_zk.clients.admin.acl_admin import EVERYTHING
from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.learn.lesson.cluster_room import PATIENCE_S, ClusterRoom
from kafka_zk.learn.lesson.teacher import Teacher
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.security.scram import MECHANISMS

BROKERS = 2
ADMIN, ALICE, BOB = "admin", "alice", "bob"
WINDOW_COUNT = 2
"""Number of samples, of a second each, in a quota's window. Kafka's default of 11 would prolong the chapter."""
_TICK_TIME_MS = 500
_PROPERTIES = {
    "authorizer.class.name": ACL_AUTHORIZER,
    "super.users": f"User:{ADMIN}",
    "quota.window.num": str(WINDOW_COUNT),
    "auto.create.topics.enable": "false",
}


class SecuredRoom(ClusterRoom):
    """Brokers 0 and 1 with an authorizer, and the users ADMIN (a super user), ALICE and BOB; a context manager.

    Raises: EmbeddedError, KafkaError, RegistryError; LessonFailed if an expected event does not come in time.
    """

    def __init__(self, data_dir: Path, teacher: Teacher, verbose: bool = False) -> None:
        super().__init__(data_dir / "trace", teacher, verbose)
        self._data_dir = data_dir
        self._cluster = EmbeddedCluster(
            data_dir,
            broker_count=BROKERS,
            tick_time_ms=_TICK_TIME_MS,
            force_sync=False,
            properties=_PROPERTIES,
            trace=self._trace,
            secured=True,
        )
        self._closing = ExitStack()
        self._topics: dict[str, int] = {}  # how often each name was used

    @property
    def zookeeper(self) -> str:
        return self._cluster.zookeeper_connect

    def __enter__(self) -> Self:
        self._cluster.start()
        self._closing.callback(self._cluster.stop)
        try:
            for user in (ALICE, BOB):
                self._cluster.add_user(user)
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
        """Remove all ACLs and the lesson's quotas."""
        self.teacher.all_seen()
        with self.admin(0) as admin:
            admin.acls.remove_acls([EVERYTHING])
            admin.alter_client_quotas({"user": ALICE}, {"producer_byte_rate": None})

    def topic(self, name: str, leader: int) -> TopicPartition:
        """Create a topic with one partition, which this broker alone has."""
        count = self._topics[name] = self._topics.get(name, 0) + 1
        tp = TopicPartition(name if count == 1 else f"{name}-{count}", 0)
        with self.admin(0) as admin:
            admin.create_topics([NewTopic(tp.topic, assignment={0: [leader]})])
        return tp

    def admin(self, broker_id: int) -> BlockingAdmin:
        """An administrator that first asks this broker. The caller closes it."""
        return BlockingAdmin(None, **self._options(ADMIN, broker_id))

    def producer(self, user: str) -> BlockingProducer:
        """Create a producer for a user. The caller closes it."""
        return BlockingProducer(
            None,
            acks="all",
            enable_idempotence=False,  # an idempotent producer would already fail to get its id
            delivery_timeout_ms=PATIENCE_S * 1000,
            **self._options(user, 0),
        )

    def reader(self, user: str) -> BlockingReader:
        """Create a reader for a user. The caller closes it."""
        return BlockingReader(None, **self._options(user, 0))

    def quotas(self, user: str) -> dict[str, str]:
        """The quotas in a user's znode, without its credentials."""
        found = run_blocking(ConfigRegistry(self.client).entity("users", user))
        return {key: value for key, value in found.items() if key not in MECHANISMS}

    def last_child(self, parent: str) -> str:
        """The path of the child with the highest name."""
        names, _ = run_blocking(self.client.children(parent))
        return f"{parent}/{max(names)}"

    def _options(self, user: str, broker_id: int) -> dict[str, Any]:
        assert self._cluster.security is not None, "it has started"
        login = self._cluster.security.login(user)
        return {"bootstrap_servers": self._cluster.brokers[broker_id].bootstrap, "security": login, "client_id": user}
