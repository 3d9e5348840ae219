"""No secret of a znode is shown or recorded: SCRAM keys, key store passwords, HMACs of delegation tokens."""

import json

import pytest

from kafka_zk.registry import znode_tree
from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.znodes.secrets import HIDDEN, masked
from tests.registry.world import World

SECRET = "stored_key=c2VjcmV0"


def znode(**config: object) -> bytes:
    return json.dumps({"version": 1, "config": config}).encode()


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/config/users/alice", znode(**{"SCRAM-SHA-256": f"salt=x,{SECRET},iterations=4096"})),
        ("/config/users/<default>", znode(**{"SCRAM-SHA-512": SECRET})),
        ("/config/users/alice/clients/app", znode(whatever=SECRET)),
        ("/kafka/config/users/alice", znode(**{"SCRAM-SHA-256": [SECRET]})),
        ("/config/users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"%s"},"config":{}}' % SECRET.encode()),
        ("/config/users/alice", SECRET.encode()),
        ("/config/users/alice", b"\xff" + SECRET.encode()),
        ("/config/brokers/0", znode(**{"listener.name.internal.ssl.keystore.password": SECRET})),
        ("/config/brokers/<default>", znode(**{"sasl.jaas.config": SECRET, "ssl.keystore.key": SECRET})),
        ("/config/topics/t", znode(**{"confluent.secret": SECRET})),
        ("/kafka-zk/secret", SECRET.encode()),
        ("/chroot/kafka-zk/secret", b"\xff" + SECRET.encode()),
        ("/delegation_token/tokens/abc", json.dumps({"version": 3, "hmac": SECRET}).encode()),
        ("/kafka/kafka-zk/secret", SECRET.encode()),
    ],
)
def test_secrets_are_masked(path: str, data: bytes) -> None:
    told = masked(path, data)
    assert told is not None and SECRET.encode() not in told
    assert told == masked(path, told)


def test_other_values_are_not_masked() -> None:
    for path, data in (
        ("/config/users/alice", znode(producer_byte_rate="1024")),
        ("/config/brokers/0", znode(**{"log.retention.ms": "7", "ssl.keystore.location": "/k"})),
        ("/config/topics/t", znode(**{"cleanup.policy": "compact"})),
    ):
        told = masked(path, data)
        assert told is not None and json.loads(told) == json.loads(data)
    assert masked("/brokers/topics/config", b"\xff") == b"\xff"
    assert masked("/config/users", b"x") == b"x"
    assert masked("/kafka-zk/secrets", b"x") == b"x"
    assert masked("/config/users/alice", None) is None


def test_a_user_keeps_the_names_of_its_mechanisms() -> None:
    told = masked("/config/users/alice", znode(**{"SCRAM-SHA-256": SECRET, "consumer_byte_rate": "7"}))
    assert told is not None
    assert json.loads(told)["config"] == {"SCRAM-SHA-256": HIDDEN, "consumer_byte_rate": "7"}


@pytest.mark.parametrize(("root", "below", "shown"), [("/", "", "/config/users/a"), ("/a", "/config/users", "/a")])
def test_the_tree_is_shown_without_secrets_also_from_below_a_chroot(root: str, below: str, shown: str) -> None:
    world = World()
    data = znode(**{"SCRAM-SHA-256": SECRET})
    path = shown
    world.scheduler.run(create_with_parents(world.clients[0], Create(path, data)))
    nodes = world.scheduler.run(znode_tree.read_tree(world.clients[0], root, chroot=below))
    (node,) = [node for node in nodes if node.path == shown]
    assert HIDDEN in node.text and SECRET not in node.text
