"""Both sides of a real migration agree except in a malformed configuration, and each change of a znode is found."""

import json
from collections.abc import Callable

import pytest

from kafka_zk.migration.metadata.comparison import Difference, differences, older_side
from kafka_zk.migration.metadata.image import Kind, MetadataImage
from kafka_zk.migration.metadata.log_folder import read_folder
from kafka_zk.migration.metadata.znode_image import read_image
from kafka_zk.registry import run_blocking
from tests.kafka_zk.migration.metadata.both_sides import LAST_OFFSET, RECORDED, client, znodes

Znodes = dict[str, bytes]
LOG = read_folder(RECORDED)
STATE = "/brokers/topics/orders/partitions/0/state"
ALICE = "/config/users/alice"
MALFORMED = Difference(
    Kind.CONFIG, "topic broken", "",
    "malformed: Kafka cannot parse it (/config/topics/broken: not JSON: Expecting property name enclosed in double "
    "quotes: line 1 column 2 (char 1); it is read as empty)", "absent",
)  # fmt: skip


def compared(changed: Znodes, hidden: str = "") -> list[Difference]:
    return differences(run_blocking(read_image(client(changed, hidden))), LOG.image)


def rewritten(path: str, old: str, new: str) -> Callable[[Znodes], Znodes]:
    def change(znodes: Znodes) -> Znodes:
        assert old in znodes[path].decode()
        return {**znodes, path: znodes[path].decode().replace(old, new).encode()}

    return change


def without(path: str) -> Callable[[Znodes], Znodes]:
    return lambda znodes: {each: data for each, data in znodes.items() if not each.startswith(path)}


def with_znode(path: str, document: object) -> Callable[[Znodes], Znodes]:
    return lambda znodes: {**znodes, path: json.dumps(document).encode()}


CHANGES: dict[str, tuple[Callable[[Znodes], Znodes], list[tuple[str, str, str, str, str]]]] = {
    "a topic that KRaft does not know": (
        with_znode("/brokers/topics/new", {"version": 1, "partitions": {"0": [1]}}),
        [("topic", "new", "", "present", "absent")],
    ),
    "a topic that ZooKeeper does not have": (
        without("/brokers/topics/latest"), [("topic", "latest", "", "absent", "present")]
    ),
    "another id": (
        rewritten("/brokers/topics/latest", "zL2LZi0MRWqOoe2iKRg6Kw", "AAAAAAAAAAAAAAAAAAAAAQ"),
        [("topic", "latest", "id", "AAAAAAAAAAAAAAAAAAAAAQ", "zL2LZi0MRWqOoe2iKRg6Kw")],
    ),
    "other replicas": (
        rewritten("/brokers/topics/latest", '"0":[1]', '"0":[1,2]'),
        [("partition", "latest-0", "replicas", "1,2", "1")],
    ),
    "a partition less": (
        rewritten("/brokers/topics/payments", ',"1":[1]', ""),
        [("partition", "payments-1", "", "absent", "present")],
    ),
    "another leader": (rewritten(STATE, '"leader":1', '"leader":-1'), [("partition", "orders-0", "leader", "-1", "1")]),
    "another leader epoch": (
        rewritten(STATE, '"leader_epoch":0', '"leader_epoch":7'), [("partition", "orders-0", "leader_epoch", "7", "0")]
    ),
    "another ISR": (rewritten(STATE, '"isr":[1]', '"isr":[1,2]'), [("partition", "orders-0", "isr", "1,2", "1")]),
    "another controller epoch, which differs by nature": (
        rewritten(STATE, '"controller_epoch":1', '"controller_epoch":9'), []
    ),
    "no state": (without(STATE), [("partition", "orders-0", "state", "absent", "present")]),
    "a topic's configuration": (
        rewritten("/config/topics/orders", "compact", "delete"),
        [("configuration", "topic orders", "cleanup.policy", "delete", "compact")],
    ),
    "a broker's configuration, whose values are not shown": (
        rewritten("/config/brokers/1", '"2"', '"3"'),
        [("configuration", "broker 1", "log.cleaner.threads", "one value", "another value")],
    ),
    "the configuration of all brokers": (
        without("/config/brokers/<default>"),
        [("configuration", "broker <default>", "log.cleaner.backoff.ms", "absent", "present")],
    ),
    "an ACL": (
        without("/kafka-acl/Topic/orders"),
        [("ACL", "Topic:LITERAL:orders", f"Allow User:alice {each} from *", "absent", "present")
         for each in ("Read", "Write")],
    ),
    "a malformed ACL": (
        with_znode("/kafka-acl-extended/prefixed/Topic/pay", {"version": 1, "acls": 3}),
        [("ACL", "Topic:PREFIXED:pay", "", "malformed: Kafka cannot parse it "
          "(/kafka-acl-extended/prefixed/Topic/pay: 'acls' must be a list of objects)", "present")],
    ),
    "a quota": (
        rewritten(f"{ALICE}/clients/app", "2048", "4096"),
        [("quota", "client-id app, user alice", "consumer_byte_rate", "4096", "2048")],
    ),
    "a quota of eight digits": (
        rewritten(f"{ALICE}/clients/app", "2048", "12345678"),
        [("quota", "client-id app, user alice", "consumer_byte_rate", "12345678", "2048")],
    ),
    "a quota with a fraction": (
        rewritten(f"{ALICE}/clients/app", "2048", "2048.0000001"),
        [("quota", "client-id app, user alice", "consumer_byte_rate", "2048.0000001", "2048")],
    ),
    "a quota beyond all integers": (
        rewritten(f"{ALICE}/clients/app", "2048", "1e300"),
        [("quota", "client-id app, user alice", "consumer_byte_rate", "1e+300", "2048")],
    ),
    "the same quota in other digits": (rewritten(f"{ALICE}/clients/app", "2048", "2048.0"), []),
    "the same quota as only Java writes it": (rewritten(f"{ALICE}/clients/app", "2048", "2048d"), []),
    "a quota that is no number": (
        rewritten("/config/ips/127.0.0.9", '"5"', '"five"'),
        [("quota", "ip 127.0.0.9", "", "malformed: Kafka cannot parse it "
          "(/config/ips/127.0.0.9: connection_creation_rate is not a number)", "present")],
    ),
    "a credential that Kafka cannot parse": (
        rewritten(ALICE, "iterations=", "x=1,iterations="),
        [("SCRAM user", "alice", "", "malformed: Kafka cannot parse it (/config/users/alice: not a SCRAM credential "
          "that Kafka can parse)", "present")],
    ),
    "a user's key, which is not shown": (
        rewritten(ALICE, "stored_key=Kt", "stored_key=Ku"),
        [("SCRAM user", "alice", "SCRAM-SHA-256", "one value", "another value")],
    ),
    "a token": (
        rewritten("/delegation_token/tokens/token-1", '"User%3Abob"', ""),
        [("delegation token", "token-1", "renewers", "", "User:bob")],
    ),
    "producer ids": (
        rewritten("/latest_producer_id_block", '"block_start":"1000"', '"block_start":"500"'),
        [("producer ids", "cluster", "next id", "500", "1000")],
    ),
    "producer ids in the block that a broker wrote": (
        with_znode("/latest_producer_id_block", {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"}),
        [],
    ),
}  # fmt: skip


def test_both_sides_agree_but_in_a_malformed_configuration() -> None:
    assert compared(znodes()) == [MALFORMED]


@pytest.mark.parametrize("name", list(CHANGES))
def test_each_change_is_found(name: str) -> None:
    change, expected = CHANGES[name]
    found = compared(change(znodes()))
    assert MALFORMED in found
    assert [tuple(each.as_document().values()) for each in found if each != MALFORMED] == expected


def test_no_difference_shows_a_secret() -> None:
    found = compared(without("/config/users")(znodes()))
    assert {each.kind for each in found} == {Kind.CONFIG, Kind.QUOTA, Kind.SCRAM}
    assert not [each for each in found for secret in ("key=", "salt", "KtT2T5") if secret in str(each)]


def test_an_encrypted_password_is_no_difference() -> None:
    log, znode = MetadataImage(), MetadataImage()
    for image, value in ((log, "plain"), (znode, "keyLength:128,encryptedPassword:…")):
        image.configs["broker", "1"] = {"listener.name.tls.ssl.key.password": value}
    assert differences(znode, log) == []


def test_what_zookeeper_hides_is_not_compared() -> None:
    image = run_blocking(read_image(client(znodes(), hidden="/config/users")))
    assert set(image.unread) == {Kind.QUOTA, Kind.SCRAM}
    assert differences(image, LOG.image) == [MALFORMED]


@pytest.mark.parametrize(
    ("before", "after", "begins"),
    [(LAST_OFFSET, LAST_OFFSET, "both sides are at offset 64"), (63, 63, "both sides"), (60, 70, "both sides"),
     (60, 60, "ZooKeeper is older: it has the records up to offset 60"),
     (70, 72, "the log is older: it has the records up to offset 64, ZooKeeper those up to 70"),
     (-1, -1, "ZooKeeper has no offset"), (None, None, "ZooKeeper has no offset")],
)  # fmt: skip
def test_which_side_is_older(before: int | None, after: int | None, begins: str) -> None:
    assert older_side(before, after, LOG).startswith(begins)
