"""Secured clusters for ``record_migration``: SASL, an authorizer, and a ZooKeeper whose znodes have ACLs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.client.security_keys import JAAS_FILE, SET_ACL, zookeeper_security
from kafka_zk.security import scram
from tests.peers.clusters.recorded_cluster import CONTROLLER_ID, Lab, laboratory

ADMIN, BOB = ("admin", "admin-secret"), ("bob", "bob-secret")
_ZOOKEEPER_SECRET = "zookeeper-secret"
_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
_JAAS = f"""
Server {{ {_MODULE} user_kafka="{_ZOOKEEPER_SECRET}"; }};
Client {{ {_MODULE} username="kafka" password="{_ZOOKEEPER_SECRET}"; }};
"""
_PROVIDER = "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
_MODULES = "org.apache.kafka.common.security."
_PLAIN_OF_SERVERS = (
    f'{_MODULES}plain.PlainLoginModule required username="{ADMIN[0]}" password="{ADMIN[1]}" '
    f'user_{ADMIN[0]}="{ADMIN[1]}" user_{BOB[0]}="{BOB[1]}";'
)
_CONTROLLER = {
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": _PLAIN_OF_SERVERS,
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": _PLAIN_OF_SERVERS,
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "super.users": "User:admin",
}
_STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def login(user: tuple[str, str], mechanism: str = "PLAIN") -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    jaas = f'{_MODULES}{module} required username="{user[0]}" password="{user[1]}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def secured(folder: Path) -> None:
    """The doctor runs once with all permissions, and once with those of every user."""
    jaas = folder / "jaas.conf"
    jaas.write_text(_JAAS)
    identity = {JAAS_FILE: str(jaas)}
    with laboratory(folder, jvm_flags=(f"-D{JAAS_FILE}={jaas}", _PROVIDER)) as lab:
        _make_scram_user(lab.zookeeper, identity)
        _start_broker(lab)
        everything: dict[str, Any] = {"identity": identity, "login": login(ADMIN)}
        nothing = {"login": login(BOB)}

        with_identity, lab.jvm_flags = lab.jvm_flags, ()
        lab.controller(keys={**_CONTROLLER, "sasl.enabled.mechanisms": "PLAIN"})
        controller_file = {"controller.properties": lab.nodes[CONTROLLER_ID].folder / "server.properties"}
        lab.record("secured-controller-without-identity", **everything, controller_files=controller_file)
        lab.record("secured-controller-without-identity-few", **nothing)
        lab.stop(CONTROLLER_ID)

        lab.jvm_flags = with_identity
        complete = {**_CONTROLLER, **_STANDARD, "sasl.enabled.mechanisms": "PLAIN", "zookeeper.set.acl": "true"}
        files = {
            "broker_files": {"broker.properties": lab.nodes[1].folder / "server.properties"},
            "controller_files": controller_file,
            "log_dirs": {"/data": lab.nodes[1].log_dir, "/controller": lab.nodes[CONTROLLER_ID].log_dir},
        }
        lab.controller("super.users", keys=complete)
        lab.record("secured-controller-without-super-users", **everything, **files)
        lab.stop(CONTROLLER_ID)

        lab.controller(keys=complete)
        lab.record("secured-waiting", **everything, **files)
        lab.record("secured-waiting-few", **nothing)
        lab.record(
            "secured-waiting-scram",
            identity=identity, login=login(ADMIN, "SCRAM-SHA-256"), controller_files=controller_file,
        )  # fmt: skip

        lab.stop(1)
        _start_broker(lab, mode="migration")
        lab.record("secured-dual-write", **everything, **files)
        lab.record("secured-dual-write-few", **nothing)

        lab.stop(CONTROLLER_ID)
        lab.controller("authorizer.class.name", keys=complete)
        lab.record("secured-controller-without-authorizer", **everything)


def _start_broker(lab: Lab, mode: str = "") -> None:
    port = lab.port(1)
    lab.broker(mode=mode, keys={
        **_CONTROLLER, "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{_MODULES}scram.ScramLoginModule required;",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "zookeeper.set.acl": "true",
    })  # fmt: skip


def _make_scram_user(zookeeper: str, identity: dict[str, str]) -> None:
    salt = b"of the recorded cluster"
    salted = scram.salted_password("SCRAM-SHA-256", ADMIN[1], salt, scram.MIN_ITERATIONS)
    stored = scram.encode_credential(scram.credential("SCRAM-SHA-256", salted, salt, scram.MIN_ITERATIONS))
    data = f'{{"version":1,"config":{{"SCRAM-SHA-256":"{stored}"}}}}'.encode()
    security = zookeeper_security({**identity, SET_ACL: "true"})
    with KazooBlockingClient(zookeeper, 10_000, security=security) as client:
        run_blocking(create_with_parents(client, Create(f"/config/users/{ADMIN[0]}", data)))
