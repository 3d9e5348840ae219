"""Apache Kafka 3.9.1 with listeners that want to know who is there, and the files of its clients.

SCRAM users are written to ZooKeeper by our own code before the broker starts, so that it judges their format. The
broker's certificate is for 127.0.0.1 only. A session of SCRAM-SHA-512 lasts three seconds.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.security import scram
from kafka_zk.testing.certificates import CertificateAuthority
from tests.peers import apache_kafka, wire_probe
from tests.peers.processes import ServerProcess, free_port

USER, PASSWORD = "alice", "alice-secret"
STORE_PASSWORD = "store-secret"
SESSION_MS = 3_000
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MUTUAL_TLS = "mutual TLS"
WAYS = (*MECHANISMS, MUTUAL_TLS)
_START_TIMEOUT_S = 90
_MODULES = "org.apache.kafka.common.security."
_LOGINS = {
    "PLAIN": f'{_MODULES}plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";',
    "SCRAM-SHA-256": f'{_MODULES}scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";',
    "SCRAM-SHA-512": f'{_MODULES}scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";',
    "OAUTHBEARER": f'{_MODULES}oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";',
}


@dataclass(frozen=True)
class SecuredKafka:
    """A running broker. ``ports`` are by listener name."""

    folder: Path
    zookeeper: str
    ports: Mapping[str, int]
    broker: ServerProcess

    def bootstrap(self, way: str) -> str:
        return f"127.0.0.1:{self.ports['SSL' if way == MUTUAL_TLS else 'SASL_SSL']}"

    def client_file(self, way: str, **changed: str) -> Path:
        """A ``client.properties`` that Kafka's tools and ours take; ``_`` stands for ``.`` in the names changed."""
        path = self.folder / f"{way.replace(' ', '-')}{abs(hash(tuple(changed.items()))) if changed else ''}.properties"
        keys = {**self.client_keys(way), **{name.replace("_", "."): value for name, value in changed.items()}}
        return apache_kafka.write_properties(path, keys)

    def client_keys(self, way: str) -> dict[str, str]:
        """Java's keys. Mutual TLS has the stores of Java's tools, the others have PEM."""
        if way == MUTUAL_TLS:
            return {
                "security.protocol": "SSL",
                "ssl.truststore.location": str(self.folder / "truststore.jks"),
                "ssl.truststore.password": STORE_PASSWORD,
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(self.folder / "client.p12"),
                "ssl.keystore.password": STORE_PASSWORD,
            }
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "authority.pem"),
            "sasl.mechanism": way,
            "sasl.jaas.config": _LOGINS[way],
        }


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """A ZooKeeper and one broker until the end of the block. Raises: ProcessFailed."""
    zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper", force_sync=False)
    try:
        _make_certificates(folder)
        _make_scram_users(zookeeper.connect_string)
        ports = {name: free_port() for name in ("PLAINTEXT", "SASL_SSL", "SSL")}
        logs = folder / "logs"
        logs.mkdir()
        properties = apache_kafka.server_properties(
            0, ports["PLAINTEXT"], logs, zookeeper.connect_string, _broker_keys(folder, ports)
        )
        path = apache_kafka.write_properties(folder / "server.properties", properties)
        broker = ServerProcess("secured Kafka", apache_kafka.broker_command(path), folder / "broker.out")
        try:
            broker.wait_ready(lambda: wire_probe.is_ready(ports["PLAINTEXT"], 1), _START_TIMEOUT_S)
            yield SecuredKafka(folder, zookeeper.connect_string, ports, broker)
        finally:
            broker.stop()
    finally:
        zookeeper.stop()


def _broker_keys(folder: Path, ports: Mapping[str, int]) -> dict[str, str]:
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    prefix = "listener.name.sasl_ssl."
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "authority.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{prefix}plain.sasl.jaas.config": f'{_MODULES}plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        f"{prefix}scram-sha-256.sasl.jaas.config": f"{_MODULES}scram.ScramLoginModule required;",
        f"{prefix}scram-sha-512.sasl.jaas.config": f"{_MODULES}scram.ScramLoginModule required;",
        f"{prefix}oauthbearer.sasl.jaas.config": _LOGINS["OAUTHBEARER"],
        f"{prefix}scram-sha-512.connections.max.reauth.ms": str(SESSION_MS),
    }


def _make_certificates(folder: Path) -> None:
    authority = CertificateAuthority("CA of the test")
    authority.write_truststore(folder / "authority.pem")
    CertificateAuthority("another CA").write_truststore(folder / "other.pem")
    authority.write_keystore(folder / "broker.pem", "broker", ["127.0.0.1"])
    client = authority.write_keystore(folder / "client.pem", "client")
    _run("openssl", "pkcs12", "-export", "-in", str(client), "-out", str(folder / "client.p12"), "-passout",
         f"pass:{STORE_PASSWORD}")  # fmt: skip
    _run("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(folder / "authority.pem"), "-storetype",
         "JKS", "-keystore", str(folder / "truststore.jks"), "-storepass", STORE_PASSWORD)  # fmt: skip


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _make_scram_users(connect_string: str) -> None:
    salt = b"of the secured test"
    config = {}
    for mechanism in scram.MECHANISMS:
        salted = scram.salted_password(mechanism, PASSWORD, salt, scram.MIN_ITERATIONS)
        found = scram.credential(mechanism, salted, salt, scram.MIN_ITERATIONS)
        config[mechanism] = scram.encode_credential(found)
    with KazooBlockingClient(connect_string) as client:
        for path in ("/config", "/config/users"):
            run_blocking(client.create(path, b""))
        data = json.dumps({"version": 1, "config": config}).encode()
        run_blocking(client.create(f"/config/users/{USER}", data))
