"""A broker that has only PLAINTEXT gets a secured listener while it runs, and keeps it after a restart."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kafka_zk.embedded.certificates import CertificateAuthority
from kafka_zk.embedded.ports import free_port
from kafka_zk.testing.plugin import MakeCluster

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

PREFIX = "listener.name.sasl_ssl."
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
WAIT_S = 30.0


def delivered(keys: dict[str, Any]) -> bool:
    producer = Producer({**keys, "acks": "all"})
    producer.produce("t", b"value")
    return producer.flush(WAIT_S) == 0


def test_a_secured_listener_comes_to_a_broker_that_had_none(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(1, {"password.encoder.secret": "encoder-secret"})
    authority = CertificateAuthority("authority")
    keystore = authority.write_keystore(tmp_path / "broker.pem", "broker", ("localhost", "127.0.0.1"))
    port = free_port()
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{cluster.brokers[0].port},SASL_SSL://127.0.0.1:{port}",
        f"{PREFIX}ssl.keystore.type": "PEM",
        f"{PREFIX}ssl.keystore.location": str(keystore),
        f"{PREFIX}sasl.enabled.mechanisms": "PLAIN",
        f"{PREFIX}plain.sasl.jaas.config": f'{MODULE} required user_alice="pw-of-alice";',
    }
    change = AlterConfigOpType.SET
    entries = [ConfigEntry(key, value, incremental_operation=change) for key, value in properties.items()]
    resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=entries)
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    client.incremental_alter_configs([resource])[resource].result(WAIT_S)
    secured = {
        "bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.write_truststore(tmp_path / "ca.pem")),
        "sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "pw-of-alice",
    }  # fmt: skip
    assert delivered(secured) and delivered({"bootstrap.servers": cluster.bootstrap})

    cluster.brokers[0].stop()
    cluster.restart_broker(0)
    assert delivered(secured)
    assert "pw-of-alice" not in cluster.brokers[0].process.log_file.read_text()
