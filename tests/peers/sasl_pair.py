"""One cluster of two brokers behind SASL: broker 0 is Apache Kafka 3.9.1, broker 1 ours, with the same configuration.

The login modules are those of one JAAS file, which a JVM gets as an option, and our broker in ``KAFKA_OPTS``. The
listener SASL has PLAIN with sessions of three seconds, SCRAM and unsecured tokens; SIGNED accepts tokens of a provider,
whose keys are in a file; the brokers log in to each other at INSIDE, the controller at CONTROL; TLS requires
certificates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from joserfc.jwk import RSAKey

from kafka_zk.embedded.ports import free_ports
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.security import scram
from kafka_zk.testing.certificates import CertificateAuthority
from tests.peers import apache_kafka, wire_probe
from tests.peers.processes import ServerProcess
from tests.peers.targets import kafka_zk_command

KAFKA, OURS = 0, 1
LISTENERS = ("PLAINTEXT", "INSIDE", "CONTROL", "SASL", "SIGNED", "TLS")
USERS = {"alice": "alice-secret", "bob": "bob-secret", "broker": "broker-secret"}
SESSION_MS = 3_000
_START_TIMEOUT_S = 180
_MODULES = "org.apache.kafka.common.security."
_BEARER = f'{_MODULES}oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
_LOGIN_FILE = f"""
inside.KafkaServer {{
    {_MODULES}scram.ScramLoginModule required username="broker" password="{USERS["broker"]}";
}};
control.KafkaServer {{
    {_MODULES}scram.ScramLoginModule required username="broker" password="{USERS["broker"]}";
}};
KafkaServer {{
    {_MODULES}scram.ScramLoginModule required;
    {_MODULES}plain.PlainLoginModule required user_alice="{USERS["alice"]}" user_bob="{USERS["bob"]}";
}};
"""


@dataclass(frozen=True)
class SaslPair:
    """``ports``: by broker and listener. ``signer``: the provider's key. ``brokers``: by id."""

    folder: Path
    zookeeper: str
    ports: dict[int, dict[str, int]]
    signer: Any
    brokers: list[ServerProcess]

    def client_file(self, user: str, *, name: str = "", **changed: str) -> Path:
        """A client.properties for SCRAM-SHA-256; ``_`` represents ``.`` in the names of ``changed``."""
        module = f'{_MODULES}scram.ScramLoginModule required username="{user}" password="{USERS.get(user, "")}";'
        keys = {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": module,
            **{key.replace("_", "."): value for key, value in changed.items()},
        }  # fmt: skip
        return apache_kafka.write_properties(self.folder / f"{name or user}.properties", keys)

    def token_file(self, token_id: str, hmac: str) -> Path:
        """The same for a client with a delegation token."""
        module = f'{_MODULES}scram.ScramLoginModule required username="{token_id}" password="{hmac}" tokenauth="true";'
        return self.client_file(token_id, sasl_jaas_config=module)

    def bootstrap(self, broker: int, listener: str = "SASL") -> str:
        return f"127.0.0.1:{self.ports[broker][listener]}"


@contextmanager
def sasl_pair(folder: Path) -> Iterator[SaslPair]:
    """The running cluster, until the end of the block. Raises: ProcessFailed."""
    zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper", force_sync=False)
    brokers: list[ServerProcess] = []
    try:
        make_users(zookeeper.connect_string)
        signer = RSAKey.generate_key(2048, {"kid": "k1", "alg": "RS256", "use": "sig"})
        (folder / "keys.json").write_text(json.dumps({"keys": [signer.as_dict(private=False)]}))
        _make_certificates(folder)
        login_file = folder / "jaas.conf"
        login_file.write_text(_LOGIN_FILE)
        free = free_ports(2 * len(LISTENERS))
        ports = {
            broker: dict(zip(LISTENERS, free[broker * len(LISTENERS) :], strict=False)) for broker in (KAFKA, OURS)
        }
        option = f"-Djava.security.auth.login.config={login_file}"
        for broker, of, variable in (
            (KAFKA, apache_kafka.broker_command, "JAVA_TOOL_OPTIONS"), (OURS, kafka_zk_command, "KAFKA_OPTS")
        ):  # fmt: skip
            properties = _properties(folder, broker, ports[broker], zookeeper.connect_string)
            command, output = of(properties), properties.parent / "broker.out"
            brokers.append(ServerProcess(f"broker {broker}", command, output, environment={variable: option}))
        for broker, process in enumerate(brokers):
            port = ports[broker]["PLAINTEXT"]
            process.wait_ready(lambda port=port: wire_probe.is_ready(port, 2), _START_TIMEOUT_S)  # type: ignore[misc]
        yield SaslPair(folder, zookeeper.connect_string, ports, signer, brokers)
    finally:
        for process in brokers:
            process.stop()
        zookeeper.stop()


def _properties(folder: Path, broker: int, ports: dict[str, int], zookeeper: str) -> Path:
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    logs = folder / str(broker) / "logs"
    logs.mkdir(parents=True)
    keys = {
        "listeners": listeners, "advertised.listeners": listeners,
        "listener.security.protocol.map":
            "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT,CONTROL:SASL_SSL,"
            "SASL:SASL_PLAINTEXT,SIGNED:SASL_PLAINTEXT,TLS:SSL",
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "authority.pem"),
        "listener.name.tls.ssl.client.auth": "required",
        "inter.broker.listener.name": "INSIDE", "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.inside.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "control.plane.listener.name": "CONTROL", "listener.name.control.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl.oauthbearer.sasl.jaas.config":
            _BEARER.replace(";", ' unsecuredValidatorRequiredScope="kafka";'),
        "listener.name.sasl.plain.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.signed.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.signed.oauthbearer.sasl.jaas.config": _BEARER,
        "listener.name.signed.oauthbearer.sasl.server.callback.handler.class":
            f"{_MODULES}oauthbearer.OAuthBearerValidatorCallbackHandler",
        "listener.name.signed.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "listener.name.signed.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.signed.oauthbearer.sasl.oauthbearer.expected.issuer": "https://login.example",
        "delegation.token.secret.key": "secret of both",
    }  # fmt: skip
    properties = apache_kafka.server_properties(broker, ports["PLAINTEXT"], logs, zookeeper, keys)
    return apache_kafka.write_properties(folder / str(broker) / "server.properties", properties)


def _make_certificates(folder: Path) -> None:
    authority, other = CertificateAuthority("CA of the test"), CertificateAuthority("another CA")
    authority.write_truststore(folder / "authority.pem")
    authority.write_keystore(folder / "broker.pem", "broker", ["127.0.0.1"])
    authority.write_keystore(folder / "client.pem", "client")
    authority.write_keystore(folder / "expired.pem", "client", lifetime=timedelta(minutes=-5))
    other.write_keystore(folder / "other.pem", "client")


def make_users(connect_string: str) -> None:
    with KazooBlockingClient(connect_string) as client:
        for user, password in USERS.items():
            config = {}
            for mechanism in scram.MECHANISMS:
                salted = scram.salted_password(mechanism, password, b"salt", scram.MIN_ITERATIONS)
                found = scram.credential(mechanism, salted, b"salt", scram.MIN_ITERATIONS)
                config[mechanism] = scram.encode_credential(found)
            run_blocking(ConfigRegistry(client).set_entity("users", user, config))
