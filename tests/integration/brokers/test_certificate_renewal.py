"""A broker's certificate is renewed through the API while it runs, for new connections, including those to other
brokers."""

import hashlib
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from kafka_zk.embedded.certificates import CertificateAuthority
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.cluster_security import HOSTS
from kafka_zk.registry import run_blocking
from kafka_zk.testing.clients import blocking_client
from kafka_zk.testing.plugin import MakeCluster

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

PREFIX = "listener.name.sasl_ssl.ssl.keystore."
WAIT_S = 20.0


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> EmbeddedCluster:
    properties = {"password.encoder.secret": "encoder-secret", "default.replication.factor": "2"}
    return make_cluster(2, properties, security=True)


def folder(cluster: EmbeddedCluster) -> Path:
    assert cluster.security is not None
    return cluster.security.folder


def authority(cluster: EmbeddedCluster) -> CertificateAuthority:
    return CertificateAuthority.read(folder(cluster) / "authority.pem")


def alter(cluster: EmbeddedCluster, **stores: str) -> None:
    """Change ``location=…`` and other keys of broker 0's key store. Raises: KafkaException."""
    change = AlterConfigOpType.SET
    entries = [ConfigEntry(PREFIX + key, value, incremental_operation=change) for key, value in stores.items()]
    resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=entries)
    client = AdminClient(keys(cluster))
    client.incremental_alter_configs([resource])[resource].result(WAIT_S)


def keys(cluster: EmbeddedCluster) -> dict[str, Any]:
    assert cluster.security is not None
    return {**cluster.security.librdkafka_properties(), "bootstrap.servers": cluster.bootstrap}


def shown(cluster: EmbeddedCluster) -> str:
    """The digest of the certificate that broker 0 presents."""
    pem = ssl.get_server_certificate(("127.0.0.1", cluster.brokers[0].port), timeout=5)
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def digest(keystore: Path) -> str:
    return x509.load_pem_x509_certificate(keystore.read_bytes()).fingerprint(SHA256()).hex()


def eventually(holds: Callable[[], Any]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_files_are_taken_or_refused_while_the_broker_runs(cluster: EmbeddedCluster) -> None:
    keystore = folder(cluster) / "broker-0.pem"
    other = authority(cluster).write_keystore(folder(cluster) / "other.pem", "broker-0", HOSTS)
    assert shown(cluster) == digest(keystore)
    alter(cluster, location=str(other))
    eventually(lambda: shown(cluster) == digest(other))

    authority(cluster).write_keystore(other, "broker-0", HOSTS)
    alter(cluster, location=str(other))
    eventually(lambda: shown(cluster) == digest(other))
    current = digest(other)

    other.write_text("half written")
    with pytest.raises(KafkaException, match="Validation of dynamic config update"):
        alter(cluster, location=str(other))
    stranger = authority(cluster).write_keystore(folder(cluster) / "stranger.pem", "stranger", HOSTS)
    with pytest.raises(KafkaException, match="DistinguishedName does not match"):
        alter(cluster, location=str(stranger))
    assert shown(cluster) == current

    producer = Producer({**keys(cluster), "acks": "all"})
    producer.produce("replicated", b"by both brokers")
    assert producer.flush(WAIT_S) == 0


def test_a_password_outlives_a_restart_and_is_nowhere_plain(cluster: EmbeddedCluster) -> None:
    """The store is PKCS12, the type that Java's tools create."""
    pem = authority(cluster).write_keystore(folder(cluster) / "other.pem", "broker-0", HOSTS)
    own, *chain = x509.load_pem_x509_certificates(pem.read_bytes())
    key: Any = load_pem_private_key(pem.read_bytes(), None)
    store = folder(cluster) / "broker-0.p12"
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(b"kafka", key, own, chain, BestAvailableEncryption(b"pw-of-p12"))
    )
    with pytest.raises(KafkaException):
        alter(cluster, type="PKCS12", location=str(store), password="wrong-pw")
    alter(cluster, type="PKCS12", location=str(store), password="pw-of-p12")
    eventually(lambda: shown(cluster) == digest(pem))

    with blocking_client(cluster.zookeeper_connect) as client:
        data = run_blocking(client.get("/config/brokers/0"))[0] or b""
    assert b"encryptedPassword:" in data and b"pw-of-p12" not in data
    client_of_brokers, resource = AdminClient(keys(cluster)), ConfigResource(ResourceType.BROKER, "0")
    entries = client_of_brokers.describe_configs([resource])[resource].result(WAIT_S)
    assert entries[PREFIX + "password"].value is None and entries[PREFIX + "password"].is_sensitive
    assert entries[PREFIX + "location"].value == str(store)

    cluster.brokers[0].stop()
    cluster.restart_broker(0)
    assert shown(cluster) == digest(pem)
    assert all("pw-of-p12" not in broker.process.log_file.read_text() for broker in cluster.brokers)
