"""``kafka-zk users`` on a real cluster: an added user can log in, a removed one cannot."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_zk import BlockingAdmin
from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER
from kafka_zk.clients.connection.errors import AuthenticationError
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.ports import free_ports
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.processes import kafka_zk, kafka_zk_json, on_terminal, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

PASSWORD = "a secret of alice's"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


class Cluster:
    """Administrators use PLAINTEXT and are super users; SCRAM users use ``clients``."""

    def __init__(self, folder: Path, zookeeper: Chroot) -> None:
        port, clients_port = free_ports(2)
        self.folder = folder
        self.ways = {
            "broker": ("--bootstrap-server", f"127.0.0.1:{port}"),
            "ZooKeeper": ("--zookeeper", zookeeper.connect_string),
        }
        self.clients = f"127.0.0.1:{clients_port}"
        self.broker = BrokerProcess(folder, 0, port, zookeeper.connect_string, {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CLIENTS://{self.clients}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": f"{SHA_256},{SHA_512}",
            "listener.name.clients.scram-sha-256.sasl.jaas.config": SCRAM_MODULE,
            "listener.name.clients.scram-sha-512.sasl.jaas.config": SCRAM_MODULE,
            "connection.failed.authentication.delay.ms": "0",
            "authorizer.class.name": ACL_AUTHORIZER,
            "super.users": "User:ANONYMOUS",
        })  # fmt: skip

    def lets_in(self, user: str, mechanism: str = SHA_512, password: str = PASSWORD) -> bool:
        """Whether the user can log in."""
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": user,
                 "sasl.password": password}  # fmt: skip
        with (
            contextlib.suppress(AuthenticationError),
            BlockingAdmin(bootstrap_servers=self.clients, security=login) as admin,
        ):
            admin.describe_cluster()
            return True
        return False


@pytest.fixture(scope="module")
def cluster(zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("users"), Chroot(zookeeper_server, "/users"))
    made.broker.start()
    try:
        wait_for(lambda: kafka_zk("topics", "list", *made.ways["broker"]).returncode == 0, "the start of the broker")
        yield made
    finally:
        made.broker.stop()


@pytest.mark.parametrize("way", ["broker", "ZooKeeper"])
def test_users_log_in_from_add_to_remove(cluster: Cluster, way: str, tmp_path: Path) -> None:
    """The broker applies changes made through it and in ZooKeeper, and both ways list the same users."""
    where, user = cluster.ways[way], f"alice-{way}"
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    assert not cluster.lets_in(user)
    said = [kafka_zk("users", "add", user, *where, stdin=f"{PASSWORD}\n")]
    said.append(kafka_zk("users", "add", user, "--mechanism", SHA_256, "--password-file", file, *where))
    wait_for(lambda: cluster.lets_in(user) and cluster.lets_in(user, SHA_256), "logging in")
    assert not cluster.lets_in(user, password="another")
    for options in cluster.ways.values():
        listed = [row for row in kafka_zk_json("users", "list", *options) if row["user"] == user]
        assert [(row["mechanism"], row["iterations"]) for row in listed] == [(SHA_256, 8192), (SHA_512, 8192)]
    said.append(kafka_zk("users", "remove", user, "--mechanism", SHA_512, *where))
    wait_for(lambda: not cluster.lets_in(user), "removing one mechanism")
    assert cluster.lets_in(user, SHA_256)
    said.append(kafka_zk("users", "remove", user, *where))
    wait_for(lambda: not cluster.lets_in(user, SHA_256), "removing the user")
    assert [done.returncode for done in said] == [0] * 4
    again = kafka_zk("users", "remove", user, *where)
    assert again.returncode == 1 and f"Error: no user {user}" in again.stderr
    shown = "".join(done.stdout + done.stderr for done in said)
    assert PASSWORD not in shown + "".join(path.read_text() for path in cluster.folder.rglob("*.log"))


@pytest.mark.parametrize("way", ["broker", "ZooKeeper"])
def test_explain_finds_quotas_and_acls(cluster: Cluster, way: str) -> None:
    where, user = cluster.ways[way], f"bob-{way}"
    assert kafka_zk("users", "add", user, *where, stdin=PASSWORD).returncode == 0
    assert kafka_zk("quotas", "set", "--user", user, "producer_byte_rate=1024", *where).returncode == 0
    allowed = ("--allow-principal", f"User:{user}", "--operation", "read")
    assert kafka_zk("acls", "add", "--topic", "t", *allowed, *where).returncode == 0
    shown = wait_for(lambda: (found := kafka_zk_json("users", "explain", user, *where))["acls"] and found, "the ACL")
    assert shown["mechanisms"] == [{"mechanism": SHA_512, "iterations": 8192}]
    assert [(row["user"], row["quota"], row["value"]) for row in shown["quotas"]] == [
        (user, "producer_byte_rate", 1024.0)
    ]
    assert [(row["name"], row["operation"]) for row in shown["acls"]] == [("t", "Read")]


def test_a_terminal_does_not_show_what_is_typed(cluster: Cluster) -> None:
    with on_terminal("users", "add", "carol", *cluster.ways["broker"]) as terminal:
        terminal.read_until("Password:")
        terminal.press(f"{PASSWORD}\n")
        terminal.read_until("Password again:")
        terminal.press(f"{PASSWORD}\n")
        assert terminal.read_to_the_end() == 0
        assert PASSWORD not in terminal.text
    wait_for(lambda: cluster.lets_in("carol"), "logging in")
