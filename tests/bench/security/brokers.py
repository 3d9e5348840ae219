"""Brokers of both kinds with listeners for TLS and SASL beside a plain one, and the keys of their clients."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import confluent_kafka.admin
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kafka_zk.embedded.ports import free_port
from tests.bench.workloads import Client, Workload
from tests.peers import targets
from tests.peers.targets import Target

USER, PASSWORD = "bench", "bench-secret"
MECHANISM = "SCRAM-SHA-512"
CERTIFICATES = {"ec": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], "rsa": ["rsa:2048"]}
"""Listener with TLS only -> the kind of its certificate's key, as an argument of ``openssl req -newkey``."""

_PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SASL_SSL": "SASL_SSL", "SASL": "SASL_PLAINTEXT", "EC": "SSL", "RSA": "SSL"}
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_TIMEOUT_S = 30


@dataclass(frozen=True)
class SecuredBroker:
    """``ports`` are by the name of the listener; ``target`` is the broker with its plain listener."""

    target: Target
    ports: Mapping[str, int]
    files: Path

    @property
    def authority(self) -> Path:
        return self.files / "ec.pem"

    def secured(self) -> Target:
        """The broker with its SASL_SSL listener for clients; everything else uses the plain listener."""
        values = {**vars(self.target), "ports": [self.ports["SASL_SSL"]]}
        return _Secured(**values, plain=self.target)

    def client(self, workload: Workload) -> Workload:
        """``workload`` with the keys of a client that logs in by SASL_SSL."""
        keys = {"security.protocol": "SASL_SSL", "sasl.mechanism": MECHANISM}
        if workload.client in (Client.LIBRDKAFKA_PRODUCERS, Client.LIBRDKAFKA_CONSUMERS):
            keys |= {"ssl.ca.location": str(self.authority), "sasl.username": USER, "sasl.password": PASSWORD}
        else:
            keys |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        return replace(workload, config={**workload.config, **keys})

    @contextmanager
    def java_login(self) -> Iterator[None]:
        """Let Java clients that start in the block find the password in a file: the performance tools accept no value
        with a ``=``.
        """
        jaas = self.files / "jaas.conf"
        jaas.write_text(f'KafkaClient {{ {_LOGIN} username="{USER}" password="{PASSWORD}"; }};\n')
        with mock.patch.dict("os.environ", {"JAVA_TOOL_OPTIONS": f"-Djava.security.auth.login.config={jaas}"}):
            yield


@dataclass
class _Secured(Target):
    plain: Target | None = None

    def end_offset(self, topic: str, partition: int) -> int:
        assert self.plain is not None
        return self.plain.end_offset(topic, partition)


def make_certificates(folder: Path) -> None:
    """Make a key with a self-signed certificate for 127.0.0.1 for each of ``CERTIFICATES``."""
    folder.mkdir(parents=True)
    for name, kind in CERTIFICATES.items():
        key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=broker", "-newkey", *kind,
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
            check=True, capture_output=True, timeout=_TIMEOUT_S,
        )  # fmt: skip
        (folder / f"{name}.keystore").write_text(key.read_text() + certificate.read_text())


def start(name: str, zookeeper: str, folder: Path, files: Path, *, cores: str) -> SecuredBroker:
    """Start one broker, and add the user. Raises: ProcessFailed, KafkaException."""
    ports = {listener: free_port() for listener in _PROTOCOLS}
    target = targets.start(
        name, zookeeper, folder, overrides=_keys(ports, files), cores=cores, ports=[ports["PLAINTEXT"]]
    )
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    user = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 3})
    for done in admin.alter_user_scram_credentials([user]).values():
        done.result(_TIMEOUT_S)
    return SecuredBroker(target, ports, files)


def _keys(ports: Mapping[str, int], files: Path) -> dict[str, str]:
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    stores = {"sasl_ssl": "ec", "ec": "ec", "rsa": "rsa"}
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in _PROTOCOLS.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "auto.create.topics.enable": "false",
        "log.segment.delete.delay.ms": "1000",
        "sasl.enabled.mechanisms": MECHANISM,
        **{f"listener.name.{name}.{MECHANISM.lower()}.sasl.jaas.config": f"{_LOGIN};" for name in ("sasl", "sasl_ssl")},
        **{f"listener.name.{name}.ssl.keystore.type": "PEM" for name in stores},
        **{f"listener.name.{name}.ssl.keystore.location": str(files / f"{kind}.keystore")
           for name, kind in stores.items()},
    }  # fmt: skip
