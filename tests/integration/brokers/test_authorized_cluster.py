"""Two brokers with Kafka's AclAuthorizer: ``kafka-zk acls`` changes the permissions, and clients notice it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, AdminClient, ResourcePatternType
from confluent_kafka.admin import ResourceType as ConfluentType

from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.ports import free_ports
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.registry import run_blocking
from kafka_zk.testing.clients import blocking_client
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.processes import kafka_zk, kafka_zk_json

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

WAIT_S = 30.0
USERS = {"alice": "alices-pw", "bob": "bobs-pw"}
_USERS = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
LOGIN = f"org.apache.kafka.common.security.plain.PlainLoginModule required {_USERS};"


class AuthorizedCluster:
    """Administrators and brokers connect to PLAINTEXT, where everyone is a super user, and users connect to CLIENTS."""

    def __init__(self, folder: Path, zookeeper: Chroot, **more: str) -> None:
        ports = free_ports(4)
        self.folder = folder
        self.zookeeper = zookeeper.connect_string
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports[:2])
        self.clients = ",".join(f"127.0.0.1:{port}" for port in ports[2:])
        self.brokers = [
            BrokerProcess(folder / str(number), number, ports[number], self.zookeeper, {
                "listeners": f"PLAINTEXT://127.0.0.1:{ports[number]},CLIENTS://127.0.0.1:{ports[number + 2]}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": LOGIN,
                "offsets.topic.num.partitions": "1",
                "group.initial.rebalance.delay.ms": "0",
                "zookeeper.session.timeout.ms": "4000",
                **more,
            })
            for number in range(2)
        ]  # fmt: skip

    def start(self) -> None:
        for broker in self.brokers:
            broker.start()

    def stop(self) -> None:
        for broker in self.brokers:
            broker.stop()

    def keys(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.clients, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.username": user, "sasl.password": USERS[user], "log_level": 0,
        }  # fmt: skip

    def acls(self, command: str, *arguments: str) -> Any:
        """Run ``kafka-zk acls`` through a broker."""
        return kafka_zk_json("acls", command, *arguments, "--bootstrap-server", self.bootstrap)

    def acls_in_zookeeper(self, command: str, *arguments: str) -> Any:
        return kafka_zk_json("acls", command, *arguments, "--zookeeper", self.zookeeper)

    @property
    def logs(self) -> str:
        names = ("broker.log", "kafka-authorizer.log")
        return "".join(path.read_text() for name in names for path in self.folder.rglob(name))


@pytest.fixture(scope="module")
def cluster(
    zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AuthorizedCluster]:
    keys = {"authorizer.class.name": ACL_AUTHORIZER, "super.users": "User:ANONYMOUS;User:root"}
    made = AuthorizedCluster(tmp_path_factory.mktemp("authorized"), Chroot(zookeeper_server, "/authorized"), **keys)
    made.start()
    eventually(lambda: len(AdminClient({"bootstrap.servers": made.bootstrap}).list_topics(timeout=5).brokers) == 2)
    for topic in ("t", "pre-t"):
        where = ("--bootstrap-server", made.bootstrap)
        kafka_zk("topics", "create", "--topic", topic, "--replication-factor", "2", *where)
    yield made
    made.stop()


def eventually(works: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while True:
        try:
            if works():
                return
        except KafkaException:
            pass
        assert time.monotonic() < deadline_s, "the condition never became true"
        time.sleep(0.1)


def produced(cluster: AuthorizedCluster, user: str, topic: str) -> bool:
    """Whether the broker accepted a record; otherwise, it refused the record because a permission is missing."""
    told: list[Any] = []
    producer = Producer(cluster.keys(user) | {"message.timeout.ms": 10_000})
    producer.produce(topic, b"v", on_delivery=lambda error, _: told.append(error))
    producer.flush(15)
    (error,) = told
    assert error is None or error.name() == "TOPIC_AUTHORIZATION_FAILED", error
    return error is None


def test_acls_count_at_all_brokers_within_a_second(cluster: AuthorizedCluster) -> None:
    """An ACL is written through a broker, and another one in ZooKeeper."""
    assert not produced(cluster, "alice", "t")
    cluster.acls("add", "--topic", "t", "--allow-principal", "User:alice", "--operation", "write")
    time.sleep(1)
    assert produced(cluster, "alice", "t") and not produced(cluster, "bob", "t")
    cluster.acls_in_zookeeper(
        "add", "--topic", "pre-", "--prefixed", "--allow-principal", "User:*", "--operation", "write"
    )
    time.sleep(1)
    assert produced(cluster, "bob", "pre-t") and not produced(cluster, "bob", "t")
    cluster.acls("add", "--topic", "pre-t", "--deny-principal", "User:bob", "--operation", "write")
    time.sleep(1)
    assert not produced(cluster, "bob", "pre-t") and produced(cluster, "alice", "pre-t")


def test_a_group_needs_its_own_permission(cluster: AuthorizedCluster) -> None:
    cluster.acls("add", "--topic", "t", "--allow-principal", "User:bob", "--operation", "read")
    cluster.acls("add", "--topic", "t", "--allow-principal", "User:alice", "--operation", "write")
    time.sleep(1)
    assert produced(cluster, "alice", "t")

    def error_or_value(group: str) -> str:
        consumer = Consumer(cluster.keys("bob") | {"group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        try:
            while (message := consumer.poll(15)) is not None:
                error = message.error()
                if error is None:
                    return str(message.value())
                if error.name() == "GROUP_AUTHORIZATION_FAILED":
                    return str(error.name())
            return "nothing"
        finally:
            consumer.close()

    assert error_or_value("g") == "GROUP_AUTHORIZATION_FAILED"
    cluster.acls("add", "--group", "g", "--allow-principal", "User:bob", "--operation", "read")
    time.sleep(1)
    assert error_or_value("g") == "b'v'"


def test_acls_are_listed_explained_and_removed(cluster: AuthorizedCluster) -> None:
    """Brokers and ZooKeeper show the same ACLs."""
    cluster.acls("add", "--topic", "shown-", "--prefixed", "--allow-principal", "User:bob", "--operation", "Read")
    row = {"resource": "Topic", "name": "shown-", "pattern": "prefixed", "permission": "Allow",
           "principal": "User:bob", "operation": "Read", "host": "*"}  # fmt: skip
    for ask in (cluster.acls, cluster.acls_in_zookeeper):
        listed = ask("list", "--topic", "shown-1", "--principal", "User:bob")
        assert row in listed["acls"] and listed["unreadable"] == []
        asked = ("--topic", "shown-1", "--operation", "describe", "--principal")
        yes = ask("explain", *asked, "User:bob")
        assert yes == {"allowed": True, "reason": "by the ACL Allow User:bob Read from *", "by": row}
        assert ask("explain", *asked, "User:carol") == {
            "allowed": False, "reason": "no ACL of Topic:PREFIXED:shown- allows it", "by": None
        }  # fmt: skip
    anybody: Any = None
    binding = AclBindingFilter(
        ConfluentType.TOPIC, "shown-", ResourcePatternType.PREFIXED, anybody, anybody, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = admin.describe_acls(binding).result(10)
    assert [(each.principal, each.operation) for each in described] == [("User:bob", AclOperation.READ)]
    said = kafka_zk("acls", "explain", "--topic", "shown-1", "--operation", "read", "--principal", "User:bob",
                    "--bootstrap-server", cluster.bootstrap).stdout  # fmt: skip
    by = "by the ACL Allow User:bob Read from * of Topic:PREFIXED:shown-"
    assert said == f"May User:bob Read Topic shown-1? Yes, {by}.\n"
    assert cluster.acls("remove", "--topic", "shown-", "--prefixed")["acls"] == [row]
    assert cluster.acls_in_zookeeper("list", "--topic", "shown-1", "--principal", "User:bob")["acls"] == []


def test_acls_that_nobody_understands_deny_their_topic_and_can_be_replaced(cluster: AuthorizedCluster) -> None:
    add = ("add", "--topic", "broken", "--allow-principal", "User:alice", "--operation", "write")
    cluster.acls_in_zookeeper(*add)
    with blocking_client(cluster.zookeeper) as client:
        run_blocking(client.set("/kafka-acl/Topic/broken", b'{"version":1,"acls":[{"principal":"User:alice"}]}'))
        run_blocking(client.create("/kafka-acl-changes/acl_changes_", b"TOPIC:broken", sequential=True))
    eventually(lambda: "Topic:LITERAL:broken is denied to everyone" in cluster.logs)
    (unreadable,) = cluster.acls_in_zookeeper("list", "--topic", "broken")["unreadable"]
    assert (unreadable["name"], "not understood" in unreadable["problem"]) == ("broken", True)
    asked = ("explain", "--topic", "broken", "--operation", "write", "--principal", "User:alice")
    assert cluster.acls_in_zookeeper(*asked)["allowed"] is False
    assert kafka_zk("acls", *add, "--zookeeper", cluster.zookeeper).returncode == 1
    cluster.acls_in_zookeeper(*add, "--replace-unreadable")
    assert cluster.acls_in_zookeeper(*asked)["allowed"] is True


def test_denials_are_in_the_log_as_kafka_writes_them(cluster: AuthorizedCluster) -> None:
    assert not produced(cluster, "bob", "secret")
    line = (
        "kafka.authorizer.logger: Principal = User:bob is Denied Operation = Describe from host = 127.0.0.1 on "
        "resource = Topic:LITERAL:secret for request = Metadata with resourceRefCount = 1"
    )
    eventually(lambda: line in cluster.logs)
    assert "everyone who can connect to ZooKeeper can change ACLs" in cluster.logs
    assert not any(password in cluster.logs for password in USERS.values())


def test_a_python_class_decides(
    zookeeper_server: EmbeddedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of the class denies the operation."""
    (tmp_path / "alice_only.py").write_text(
        "class Rules:\n"
        "    def __init__(self, properties):\n"
        "        assert properties['authorizer.class.name'] == 'alice_only:Rules'\n"
        "    def authorize(self, context, operation, resource):\n"
        "        if context.principal == 'User:bob':\n"
        "            raise LookupError(resource.name)\n"
        "        return True\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    made = AuthorizedCluster(
        tmp_path, Chroot(zookeeper_server, "/python-authorizer"), **{"authorizer.class.name": "alice_only:Rules"}
    )
    made.start()
    try:
        kafka_zk("topics", "create", "--topic", "t", "--bootstrap-server", made.bootstrap)
        eventually(lambda: produced(made, "alice", "t"))
        assert not produced(made, "bob", "t")
        assert "the authorizer failed, so the operation is denied" in made.logs
        refused = kafka_zk("acls", "list", "--bootstrap-server", made.bootstrap)
        assert refused.returncode == 1 and "SECURITY_DISABLED" in refused.stderr
    finally:
        made.stop()
