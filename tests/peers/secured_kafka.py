"""A broker whose listeners authenticate every client, and the files of its clients: Apache Kafka 3.9.1, Apache Kafka
4.3.0 without ZooKeeper, or ours.

Our own code writes the SCRAM users to ZooKeeper before the broker starts, so that the broker judges their format. The
broker's certificate is for 127.0.0.1 only. A session of SCRAM-SHA-512 lasts three seconds. Everyone may do what no ACL
denies, so that clients can change ACLs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER
from kafka_zk.embedded.ports import free_port
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.security import scram
from kafka_zk.testing.certificates import CertificateAuthority
from tests.peers import apache_kafka, java, wire_probe
from tests.peers.jars import NEWEST_VERSION
from tests.peers.processes import ServerProcess

USER, PASSWORD = "alice", "alice-secret"
STORE_PASSWORD = "store-secret"
TOKEN_SECRET = "secret of the tokens"
SESSION_MS = 3_000
LISTENERS = ("PLAINTEXT", "SASL_SSL", "SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MUTUAL_TLS = "mutual TLS"
WAYS = (*MECHANISMS, MUTUAL_TLS)
_START_TIMEOUT_S = 90
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_KRAFT_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_MODULES = "org.apache.kafka.common.security."
_LOGIN_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}


def login_module(mechanism: str, **options: str) -> str:
    """A ``sasl.jaas.config``."""
    words = "".join(f' {name}="{value}"' for name, value in options.items())
    return f"{_MODULES}{_LOGIN_MODULES[mechanism]} required{words};"


_LOGINS = {
    **{name: login_module(name, username=USER, password=PASSWORD) for name in MECHANISMS[:3]},
    "OAUTHBEARER": login_module("OAUTHBEARER", unsecuredLoginStringClaim_sub=USER),
}


@dataclass(frozen=True)
class SecuredKafka:
    """A running broker. ``ports`` are by listener name. ``zookeeper`` is empty if there is none."""

    folder: Path
    zookeeper: str
    ports: Mapping[str, int]
    broker: ServerProcess

    def bootstrap(self, way: str) -> str:
        return f"127.0.0.1:{self.ports['SSL' if way == MUTUAL_TLS else 'SASL_SSL']}"

    def client_file(self, way: str, **changed: str) -> Path:
        """A ``client.properties`` for Kafka's tools and ours; ``_`` represents ``.`` in the names of ``changed``."""
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
def secured_kafka(
    folder: Path, command: Callable[[Path], list[str]] = apache_kafka.broker_command, *, session_ms: int = SESSION_MS
) -> Iterator[SecuredKafka]:
    """A ZooKeeper and one broker until the end of the block; ``command`` starts it from its server.properties.

    Raises: ProcessFailed.
    """
    zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper", force_sync=False)
    try:
        _make_certificates(folder)
        _make_scram_users(zookeeper.connect_string)
        ports = {name: free_port() for name in LISTENERS}
        keys = _broker_keys(folder, ports, session_ms)
        properties = apache_kafka.server_properties(
            0, ports["PLAINTEXT"], _log_folder(folder), zookeeper.connect_string, keys
        )
        path = apache_kafka.write_properties(folder / "server.properties", properties)
        with _running(command(path), folder, ports, zookeeper.connect_string) as running:
            yield running
    finally:
        zookeeper.stop()


@contextmanager
def secured_kraft(folder: Path) -> Iterator[SecuredKafka]:
    """Apache Kafka 4.3.0, a broker that is its own controller, until the end of the block. Raises: ProcessFailed."""
    _make_certificates(folder)
    ports = {name: free_port() for name in (*LISTENERS, "CONTROLLER")}
    keys = _broker_keys(folder, {name: ports[name] for name in LISTENERS})
    keys["authorizer.class.name"] = _KRAFT_AUTHORIZER
    protocols = ",".join(f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}" for name in ports)
    controller = f"127.0.0.1:{ports['CONTROLLER']}"
    path = apache_kafka.write_properties(folder / "server.properties", {
        **keys,
        "process.roles": "broker,controller", "node.id": "0",
        "controller.quorum.voters": f"0@{controller}", "controller.listener.names": "CONTROLLER",
        "listeners": f"{keys['listeners']},CONTROLLER://{controller}", "listener.security.protocol.map": protocols,
        "log.dirs": str(_log_folder(folder)), "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
    })  # fmt: skip
    users = [f"--add-scram={mechanism}=[name={USER},password={PASSWORD}]" for mechanism in scram.MECHANISMS]
    java.run_tool(NEWEST_VERSION, "kafka.tools.StorageTool", [
        "format", "--cluster-id", _CLUSTER_ID, "--config", str(path), *users,
    ])  # fmt: skip
    with _running(apache_kafka.broker_command(path, NEWEST_VERSION), folder, ports) as running:
        yield running


@contextmanager
def _running(command: list[str], folder: Path, ports: Mapping[str, int], zookeeper: str = "") -> Iterator[SecuredKafka]:
    broker = ServerProcess("secured broker", command, folder / "broker.out")
    try:
        broker.wait_ready(lambda: wire_probe.is_ready(ports["PLAINTEXT"], 1), _START_TIMEOUT_S)
        yield SecuredKafka(folder, zookeeper, ports, broker)
    finally:
        broker.stop()


def _log_folder(folder: Path) -> Path:
    logs = folder / "logs"
    logs.mkdir()
    return logs


def _broker_keys(folder: Path, ports: Mapping[str, int], session_ms: int = SESSION_MS) -> dict[str, str]:
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
        f"{prefix}plain.sasl.jaas.config": login_module("PLAIN", **{f"user_{USER}": PASSWORD}),
        f"{prefix}scram-sha-256.sasl.jaas.config": login_module("SCRAM-SHA-256"),
        f"{prefix}scram-sha-512.sasl.jaas.config": login_module("SCRAM-SHA-256"),
        f"{prefix}oauthbearer.sasl.jaas.config": _LOGINS["OAUTHBEARER"],
        f"{prefix}scram-sha-512.connections.max.reauth.ms": str(session_ms),
        "delegation.token.secret.key": TOKEN_SECRET,
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
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
