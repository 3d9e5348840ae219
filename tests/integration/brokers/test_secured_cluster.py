"""Three brokers that require a login or a certificate: SASL_SSL between them and for clients, another listener with
mutual TLS, users in ZooKeeper.
"""

import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kafka_zk import BlockingAdmin, BlockingConsumer, BlockingProducer
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.ports import free_ports
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.registry import run_blocking
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.security import scram
from kafka_zk.testing.certificates import CertificateAuthority
from kafka_zk.testing.clients import blocking_client
from kafka_zk.testing.zookeeper import Chroot
from tests.peers.sasl_probe import SaslProbe

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

BROKERS = range(3)
WAIT_S = 30.0
SESSION_S = 4.0
KNOWN_WITHIN_S = 5.0
"""A second on an idle machine."""
SECRETS = {"broker": "between-brokers-pw", "alice": "alices-pw", "bob": "bobs-pw"}
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class SecuredCluster:
    """``bootstrap``: listener name -> addresses."""

    def __init__(self, folder: Path, zookeeper: Chroot) -> None:
        self.folder = folder
        authority = CertificateAuthority()
        self.authority = authority.write_truststore(folder / "authority.pem")
        self.client = authority.write_keystore(folder / "client.pem", "carol")
        ports = free_ports(9)
        self.bootstrap = {
            name: ",".join(f"127.0.0.1:{port}" for port in ports[first::3])
            for first, name in enumerate(("PLAINTEXT", "SASL_SSL", "SSL"))
        }
        self.brokers = []
        for broker_id in BROKERS:
            keystore = authority.write_keystore(folder / f"broker-{broker_id}.pem", "broker", ["127.0.0.1"])
            plaintext, sasl_ssl, ssl = ports[3 * broker_id : 3 * broker_id + 3]
            listeners = f"SASL_SSL://127.0.0.1:{sasl_ssl},SSL://127.0.0.1:{ssl}"
            properties = {"listeners": listeners, **self._properties(keystore)}
            broker = BrokerProcess(
                folder / str(broker_id), broker_id, plaintext, zookeeper.connect_string, properties
            )
            self.brokers.append(broker)

    def _properties(self, keystore: Path) -> dict[str, str]:
        return {
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} user_bob="{SECRETS["bob"]}";',
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE};",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config":
                f'{SCRAM_MODULE} username="broker" password="{SECRETS["broker"]}";',
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U,DEFAULT",
            "ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore),
            "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority),
            "listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms": str(int(SESSION_S * 1000)),
            "zookeeper.session.timeout.ms": "4000", "offsets.topic.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
        }  # fmt: skip

    def keys(self, mechanism: str = "SCRAM-SHA-512", user: str = "alice") -> dict[str, Any]:
        """Keys of librdkafka, which our clients accept, too."""
        return {
            "bootstrap.servers": self.bootstrap["SASL_SSL"], "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority), "sasl.mechanism": mechanism,
            "sasl.username": user, "sasl.password": SECRETS[user],
        }  # fmt: skip

    def mutual_tls(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap["SSL"], "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority),
            "ssl.certificate.location": str(self.client), "ssl.key.location": str(self.client),
        }  # fmt: skip


@pytest.fixture(scope="module")
def cluster(zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    zookeeper = Chroot(zookeeper_server, "/secured")
    with blocking_client(zookeeper.connect_string) as client:
        for user in ("broker", "alice"):
            run_blocking(ConfigRegistry(client).set_entity("users", user, credentials(SECRETS[user])))
    made = SecuredCluster(tmp_path_factory.mktemp("secured"), zookeeper)
    for broker in made.brokers:
        broker.start()
    eventually(lambda: len(AdminClient(made.keys()).list_topics(timeout=5).brokers) == len(BROKERS))
    yield made
    for broker in made.brokers:
        broker.stop()


def credentials(password: str) -> dict[str, str]:
    return {
        mechanism: scram.encode_credential(
            scram.credential(mechanism, scram.salted_password(mechanism, password, b"salt", 4096), b"salt", 4096)
        )
        for mechanism in scram.MECHANISMS
    }


def eventually(works: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            if works():
                return
        except KafkaException:
            pass
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def create_topic(cluster: SecuredCluster, name: str) -> None:
    with BlockingAdmin(**admin_keys(cluster)) as admin:
        admin.create_topic(name, 3, 3)
    eventually(lambda: leaders(cluster, name) == set(BROKERS))


def admin_keys(cluster: SecuredCluster) -> dict[str, Any]:
    keys = cluster.keys()
    return {"bootstrap_servers": keys.pop("bootstrap.servers"), "security": keys}


def leaders(cluster: SecuredCluster, topic: str) -> set[int]:
    partitions = AdminClient(cluster.keys()).list_topics(topic, timeout=5).topics[topic].partitions
    return {partition.leader for partition in partitions.values()}


def test_records_survive_the_death_of_a_broker_and_foreign_clients_read_them(cluster: SecuredCluster) -> None:
    create_topic(cluster, "secured")
    victim = cluster.brokers[1]
    with BlockingProducer(None, **cluster.keys()) as producer:
        for number in range(50):
            producer.send("secured", b"%d" % number).result(WAIT_S)
        victim.kill()
        for number in range(50, 100):
            producer.send("secured", b"%d" % number).result(WAIT_S)
    victim.start()
    consumer = Consumer({**cluster.mutual_tls(), "group.id": "foreign", "auto.offset.reset": "earliest"})
    consumer.subscribe(["secured"])
    values: list[int] = []

    def has_all() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(int(message.value() or b""))
        return len(values) == 100

    eventually(has_all)
    consumer.close()
    assert sorted(values) == list(range(100))


def test_clients_and_brokers_log_in_again_and_nothing_is_late(cluster: SecuredCluster) -> None:
    """The test lasts three sessions and writes through leaders and followers on all brokers."""
    create_topic(cluster, "renewed")
    problems: list[str] = []
    foreign = Producer({**cluster.keys(), "acks": "all", "error_cb": lambda error: problems.append(str(error))})
    end_s = time.monotonic() + 3 * SESSION_S
    with BlockingProducer(None, **cluster.keys()) as producer:
        while time.monotonic() < end_s:
            producer.send("renewed", b"ours").result(SESSION_S)
            foreign.produce("renewed", b"foreign")
            assert foreign.flush(SESSION_S) == 0
            time.sleep(0.1)
    assert problems == []
    for broker in cluster.brokers:
        assert "does not log in again" not in (broker.folder / "broker.log").read_text()


@pytest.mark.parametrize(
    ("mechanism", "user"), [("PLAIN", "bob"), ("SCRAM-SHA-256", "alice"), ("SCRAM-SHA-512", "alice")]
)
def test_our_clients_read_what_foreign_ones_wrote(cluster: SecuredCluster, mechanism: str, user: str) -> None:
    topic = f"foreign-{mechanism}"
    create_topic(cluster, topic)
    producer = Producer(cluster.keys(mechanism, user))
    producer.produce(topic, b"hello")
    assert producer.flush(WAIT_S) == 0
    options: dict[str, Any] = {"group.id": topic, "auto.offset.reset": "earliest", "consumer.timeout.ms": 20_000}
    with BlockingConsumer([topic], **cluster.keys(mechanism, user), **options) as consumer:
        assert next(iter(consumer)).value == b"hello"


def test_users_are_kept_through_brokers_without_a_restart(cluster: SecuredCluster) -> None:
    admin = AdminClient(cluster.keys())
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    changes = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("dora", info, b"doras-pw")])
    changes["dora"].result(WAIT_S)
    dora = cluster.keys("SCRAM-SHA-256", "alice") | {"sasl.username": "dora", "sasl.password": "doras-pw"}
    eventually(lambda: bool(AdminClient(dora).list_topics(timeout=2).brokers))
    found: Any = admin.describe_user_scram_credentials(["dora"])
    described = found["dora"].result(WAIT_S)
    assert [(each.mechanism, each.iterations) for each in described.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 4096)
    ]
    deletion = UserScramCredentialDeletion("dora", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])["dora"].result(WAIT_S)
    eventually(lambda: not logs_in(dora))


class TlsProbe(SaslProbe):
    def __init__(self, port: int, authority: Path) -> None:
        super().__init__(port)
        self._socket = ssl.create_default_context(cafile=authority).wrap_socket(
            self._socket, server_hostname="127.0.0.1"
        )


def test_a_new_user_is_known_at_once_where_it_was_made_and_soon_everywhere(cluster: SecuredCluster) -> None:
    """KAFKA-21069: no broker knew the user yet when its creation was acknowledged."""
    admin, mechanism = AdminClient(cluster.keys()), "SCRAM-SHA-256"
    controller = admin.list_topics(timeout=WAIT_S).controller_id
    ports = [int(address.rpartition(":")[2]) for address in cluster.bootstrap["SASL_SSL"].split(",")]

    def knows(broker_id: int, user: str) -> bool:
        with TlsProbe(ports[broker_id], cluster.authority) as probe:
            return bool(probe.exchange(mechanism, scram.scram_client(mechanism, user, "pw", "abc"))[0] == 0)

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for number in range(3):
        user = f"new-{number}"
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"pw")])[user].result(WAIT_S)
        assert knows(controller, user)
        began_s = time.monotonic()
        eventually(lambda user=user: all(knows(each, user) for each in BROKERS))  # type: ignore[misc]
        assert time.monotonic() - began_s < KNOWN_WITHIN_S


def logs_in(keys: dict[str, Any]) -> bool:
    try:
        return bool(AdminClient(keys).list_topics(timeout=1).brokers)
    except KafkaException:
        return False


@pytest.mark.parametrize(
    "changed", [{"sasl.password": "wrong"}, {"sasl.username": "nobody"}, {"security.protocol": "SSL"}]
)
def test_strangers_stay_outside(cluster: SecuredCluster, changed: dict[str, str]) -> None:
    keys = cluster.keys() | changed
    if changed.get("security.protocol") == "SSL":  # a client without a certificate
        keys = {**cluster.mutual_tls()}
        del keys["ssl.certificate.location"], keys["ssl.key.location"]
    assert not logs_in(keys)


def test_no_password_is_in_a_log(cluster: SecuredCluster) -> None:
    for broker in cluster.brokers:
        text = (broker.folder / "broker.log").read_text()
        assert "started" in text
        assert not [secret for secret in SECRETS.values() if secret in text]
