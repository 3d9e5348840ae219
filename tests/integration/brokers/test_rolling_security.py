"""A running cluster changes from PLAINTEXT to SASL_SSL as Kafka documents it, and no record is lost.

Three rolling restarts: the brokers open SASL_SSL, then use it among themselves, then close PLAINTEXT. Clients move
after the first. Source: https://kafka.apache.org/39/documentation.html#security_rolling_upgrade
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.ports import free_ports
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.certificates import CertificateAuthority
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.processes import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.embedded]

BROKERS = [0, 1, 2]
TOPIC, PARTITIONS = "kept", 3
SECRETS = {"broker": "between-brokers-pw", "alice": "alices-pw"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OPEN = {"listeners": "PLAINTEXT,SASL_SSL", "security.inter.broker.protocol": "PLAINTEXT"}
BETWEEN = {"listeners": "PLAINTEXT,SASL_SSL", "security.inter.broker.protocol": "SASL_SSL"}
CLOSED = {"listeners": "SASL_SSL", "security.inter.broker.protocol": "SASL_SSL"}
AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker;User:alice;User:ANONYMOUS",
}


class RollingCluster:
    """Three brokers that are restarted one after the other with other keys."""

    def __init__(self, folder: Path, zookeeper: Chroot, common: dict[str, str]) -> None:
        self._folder = folder
        self._zookeeper = zookeeper
        self._common = common
        authority = CertificateAuthority()
        self._authority = authority.write_truststore(folder / "authority.pem")
        self._keystore = authority.write_keystore(folder / "broker.pem", "broker", ["127.0.0.1"])
        ports = free_ports(2 * len(BROKERS))
        self._ports = {"PLAINTEXT": ports[: len(BROKERS)], "SASL_SSL": ports[len(BROKERS) :]}
        self._protocol = "PLAINTEXT"  # the listener of the clients
        plain = {"listeners": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}
        self._brokers = [self._broker(broker_id, plain) for broker_id in BROKERS]
        for broker in self._brokers:
            broker.start()

    def _broker(self, broker_id: int, keys: dict[str, str]) -> BrokerProcess:
        port = self._ports["PLAINTEXT"][broker_id]
        properties = {**self._common, **keys}
        listeners = keys["listeners"].split(",")
        properties["listeners"] = ",".join(
            f"{name}://127.0.0.1:{self._ports[name][broker_id]}" for name in listeners
        )
        if "SASL_SSL" in listeners:
            properties |= {
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config":
                    f'{SCRAM} username="broker" password="{SECRETS["broker"]}";',
                "ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._keystore),
                "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self._authority),
            }  # fmt: skip
        return BrokerProcess(
            self._folder / str(broker_id), broker_id, port, self._zookeeper.connect_string, properties
        )

    def client_keys(self) -> dict[str, Any]:
        """Keys for librdkafka without its log of every broken connection, of which these tests make many."""
        ports = self._ports[self._protocol]
        keys: dict[str, Any] = {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports),
            "log_level": 0, "topic.metadata.refresh.interval.ms": 300, "reconnect.backoff.max.ms": 200,
        }  # fmt: skip
        if self._protocol == "SASL_SSL":
            keys |= {
                "security.protocol": "SASL_SSL", "ssl.ca.location": str(self._authority),
                "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": SECRETS["alice"],
            }  # fmt: skip
        return keys

    def move_clients(self) -> None:
        """From now on, ``client_keys`` returns the keys of SASL_SSL."""
        self._protocol = "SASL_SSL"

    def roll(self, keys: dict[str, str], *, keep_in_sync: bool = True) -> None:
        """Restart each broker with these keys.

        ``keep_in_sync``: wait after each restart until all replicas are in sync; otherwise, wait only after the last
        one.
        """
        for broker_id in BROKERS:
            assert self._brokers[broker_id].stop() == 0
            self._brokers[broker_id] = self._broker(broker_id, keys)
            self._brokers[broker_id].start()
            if keep_in_sync or broker_id == BROKERS[-1]:
                self.wait_in_sync()
            else:
                wait_for(self._metadata_of_all, "a broker is back", 30)

    def wait_in_sync(self) -> None:
        def are_in_sync() -> bool:
            found = self._metadata_of_all()
            return found is not None and all(
                sorted(each.isrs) == BROKERS for each in found.topics[TOPIC].partitions.values()
            )

        wait_for(are_in_sync, "all replicas in sync", 90)

    def _metadata_of_all(self) -> Any:
        """The metadata once all brokers are there; None before, also while the client cannot reach any of them."""
        try:
            found = AdminClient(self.client_keys()).list_topics(TOPIC, timeout=20)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TRANSPORT:
                raise
            return None
        return found if len(found.brokers) == len(BROKERS) else None

    def stop(self) -> None:
        for broker in self._brokers:
            broker.stop()

    def log(self) -> str:
        return "".join((broker.folder / "broker.log").read_text() for broker in self._brokers)


class Traffic:
    """A producer with ``acks=all`` and a consumer of a group, each in a thread. ``move`` renews their connections."""

    def __init__(self, cluster: RollingCluster) -> None:
        self._cluster = cluster
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        self.consumed: list[int] = []
        self._count = 0
        self._threads: list[threading.Thread] = []
        self._start()

    def _start(self) -> None:
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        producer = Producer({**self._cluster.client_keys(), "enable.idempotence": True, "acks": "all", "linger.ms": 5})
        while not self._ends.wait(0.005):
            number = self._count
            self._count += 1
            producer.produce(TOPIC, b"%d" % number, on_delivery=self._delivered)
            producer.poll(0)
        if producer.flush(60):
            self.failed.append("not all was acknowledged")

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.add(int(message.value()))

    def _consume(self) -> None:
        consumer = Consumer(
            {**self._cluster.client_keys(), "group.id": "readers", "auto.offset.reset": "earliest",
             "enable.auto.offset.store": True, "session.timeout.ms": 10_000}
        )  # fmt: skip
        consumer.subscribe([TOPIC])
        while not self._ends.is_set() or self._is_behind():
            for message in consumer.consume(500, timeout=0.2):
                if message.error() is None:
                    self.consumed.append(int(message.value() or b""))
        consumer.close()

    def _is_behind(self) -> bool:
        """Whether acknowledged records remain to be consumed; also true while the producer is still flushing."""
        return self._threads[0].is_alive() or not self.acknowledged <= set(self.consumed)

    def wait_for_more(self) -> None:
        wanted = len(self.acknowledged) + 50, len(self.consumed) + 50
        wait_for(
            lambda: len(self.acknowledged) >= wanted[0] and len(self.consumed) >= wanted[1], "records flow", 90
        )

    def stop(self) -> None:
        """Wait until all acknowledged records have been consumed; fail if that takes too long."""
        self._ends.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def move(self) -> None:
        """Stop both, and start them again with the cluster's new keys for clients."""
        self.stop()
        self._start()


def create_users_and_topic(cluster: RollingCluster) -> None:
    admin = AdminClient(cluster.client_keys())
    wait_for(lambda: len(admin.list_topics(timeout=20).brokers) == len(BROKERS), "three brokers", 40)
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, len(BROKERS))]).values():
        created.result(30)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    users: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, info, password.encode()) for user, password in SECRETS.items()
    ]
    for altered in admin.alter_user_scram_credentials(users).values():
        altered.result(30)
    cluster.wait_in_sync()


@pytest.fixture(params=["with an authorizer", "without"])
def cluster(
    zookeeper_server: EmbeddedZooKeeper, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[RollingCluster]:
    common = {
        "min.insync.replicas": "2", "offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3",
        "zookeeper.session.timeout.ms": "4000", "group.initial.rebalance.delay.ms": "0",
        "replica.lag.time.max.ms": "4000",
        **(AUTHORIZER if request.param == "with an authorizer" else {}),
    }  # fmt: skip
    made = RollingCluster(tmp_path, Chroot(zookeeper_server, f"/{request.param.replace(' ', '-')}"), common)
    yield made
    made.stop()


@pytest.mark.one_in(2)
def test_plaintext_becomes_sasl_ssl_and_no_record_is_lost(
    cluster: RollingCluster, request: pytest.FixtureRequest
) -> None:
    """Without an authorizer, brokers accept each other's requests at the inter-broker listener only, so that replicas
    fall behind while its name changes."""
    has_authorizer = "with an authorizer" in request.node.name
    create_users_and_topic(cluster)
    traffic = Traffic(cluster)
    try:
        traffic.wait_for_more()
        cluster.roll(OPEN)
        cluster.move_clients()
        traffic.move()
        traffic.wait_for_more()
        cluster.roll(BETWEEN, keep_in_sync=has_authorizer)
        traffic.wait_for_more()
        cluster.roll(CLOSED)
        traffic.wait_for_more()
    finally:
        traffic.stop()
    assert traffic.failed == []
    assert traffic.acknowledged == set(traffic.consumed) and len(traffic.acknowledged) > 200
    with pytest.raises(KafkaException):
        plain = ",".join(f"127.0.0.1:{port}" for port in cluster._ports["PLAINTEXT"])
        AdminClient({"bootstrap.servers": plain, "log_level": 0}).list_topics(timeout=1)
    assert not [secret for secret in SECRETS.values() if secret in cluster.log()]
