"""The cluster for the lesson's chapter on ACLs and quotas."""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

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
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.security.acl import Acl, Pattern
from kafka_zk.security.scram import MECHANISMS

BROKERS = 2
ADMIN, ALICE, BOB = "admin", "alice", "bob"
WINDOW_COUNT = 2
"""Number of one-second samples over which a quota is measured. Kafka's default of 11 would need a longer chapter."""
_PROPERTIES = {
    "authorizer.class.name": ACL_AUTHORIZER,
    "super.users": f"User:{ADMIN}",
    "quota.window.num": str(WINDOW_COUNT),
    "auto.create.topics.enable": "false",
}


class SecuredRoom(ClusterRoom):
    """Brokers 0 and 1 with an authorizer, and the users ADMIN, who may do everything, ALICE and BOB."""

    def __init__(self, data_dir: Path, teacher: Teacher, verbose: bool = False) -> None:
        make_cluster = partial(EmbeddedCluster, broker_count=BROKERS, properties=_PROPERTIES, secured=True)
        super().__init__(data_dir, teacher, verbose, make_cluster)

    def _prepare(self) -> None:
        for user in (ALICE, BOB):
            self._cluster.add_user(user)

    def dismiss(self) -> None:
        self.teacher.all_seen()
        with self.admin(0) as admin:
            admin.acls.remove_acls([EVERYTHING])
            admin.alter_client_quotas({"user": ALICE}, {"producer_byte_rate": None})

    def topic(self, name: str, leader: int) -> TopicPartition:
        """Create a topic with one partition, whose only replica is on this broker."""
        tp = self._new_name(name)
        with self.admin(0) as admin:
            admin.create_topics([NewTopic(tp.topic, assignment={0: [leader]})])
        return tp

    def admin(self, broker_id: int) -> BlockingAdmin:
        """Make a client that asks this broker first. The caller closes it."""
        return BlockingAdmin(None, **self._options(ADMIN, broker_id))

    def producer(self, user: str) -> BlockingProducer:
        """Make a producer, which the caller closes."""
        return BlockingProducer(
            None,
            acks="all",
            enable_idempotence=False,  # an idempotent producer would already fail to get its id
            delivery_timeout_ms=PATIENCE_S * 1000,
            **self._options(user, 0),
        )

    def reader(self, user: str) -> BlockingReader:
        """Make a reader, which the caller closes."""
        return BlockingReader(None, **self._options(user, 0))

    def quotas(self, user: str) -> dict[str, str]:
        found = run_blocking(ConfigRegistry(self.client).entity("users", user))
        return {key: value for key, value in found.items() if key not in MECHANISMS}

    def wait_obeyed(self, broker_id: int, acls: Mapping[Pattern, Collection[Acl]]) -> None:
        """Wait until the broker lists these ACLs: from then on it enforces them."""
        with self.admin(broker_id) as admin:

            def is_loaded() -> bool:
                loaded = admin.acls.list_acls()
                return all(set(wanted) <= set(loaded.get(pattern, ())) for pattern, wanted in acls.items())

            self.wait(is_loaded, f"broker {broker_id} to load the ACLs")

    def last_child(self, parent: str) -> str:
        names, _ = run_blocking(self.client.children(parent))
        return f"{parent}/{max(names)}"

    def _options(self, user: str, broker_id: int) -> dict[str, Any]:
        assert self._cluster.security is not None, "it has started"
        login = self._cluster.security.login(user)
        return {"bootstrap_servers": self._cluster.brokers[broker_id].bootstrap, "security": login, "client_id": user}
