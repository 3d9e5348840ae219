"""Which znodes of a cluster are copied for a rehearsal, and what the copy must preserve."""

from typing import Any, NamedTuple

import pytest

from kafka_zk.migration.facts import ControllerZnode
from kafka_zk.migration.rehearsal.copied_tree import (
    CopiedTree,
    chroots,
    copied_tree,
    for_real_brokers,
    meaning,
    must_survive,
)
from kafka_zk.registry.client.errors import InvalidZnode


class Stored(NamedTuple):
    data: bytes | None
    session: int = 0


ID = b'{"version":"1","id":"abc"}'
TREE = {
    "/k/cluster/id": Stored(ID),
    "/k/controller": Stored(b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}', 7),
    "/k/brokers/ids": Stored(None),
    "/k/brokers/ids/1": Stored(b"{}", 7),
    "/k/brokers/topics": Stored(None),
    "/k/brokers/topics/orders": Stored(b'{"version":2,"partitions":{"0":[1,2]}}'),
    "/k/brokers/topics/broken": Stored(b"{"),
    "/k/config/brokers/1": Stored(b'{"version":1,"config":{"listeners":"PLAINTEXT://b1:9092"}}'),
    "/elsewhere": Stored(b"b1:9092"),
}


def test_the_copy() -> None:
    tree = copied_tree(TREE, "/k")
    assert tree.cluster_id == "abc" and tree.topic_count == 2
    assert [sorted(ids) for ids in (tree.registered, tree.assigned, tree.broker_ids)] == [[1], [1, 2], [1, 2]]
    assert tree.controller == ControllerZnode(1, -1, is_ephemeral=True)
    assert sorted(tree.data) == [
        "/brokers/ids", "/brokers/topics", "/brokers/topics/broken", "/brokers/topics/orders", "/cluster/id",
        "/config/brokers/1",
    ]  # fmt: skip
    assert tree.data["/config/brokers/1"] == b'{"version":1,"config":{"listeners":"PLAINTEXT://127.0.0.1:1"}}'


def test_a_tree_without_a_cluster() -> None:
    with pytest.raises(InvalidZnode, match="/cluster/id does not exist"):
        copied_tree({"/brokers/topics": Stored(None)}, "")


def test_where_clusters_are() -> None:
    assert chroots(TREE) == ["/k"]
    assert chroots(["/brokers/topics", "/a/b/brokers/topics", "/brokers/topics/brokers"]) == ["", "/a/b"]


def test_what_must_survive() -> None:
    data: dict[str, bytes | None] = {
        "/brokers/topics/orders": b'{"version":2,"partitions":{"0":[1,2]}}',
        "/brokers/topics/orders/partitions/0/state": b'{"leader":1}',
        "/brokers/topics/dying": b'{"version":2,"partitions":{"0":[1]}}',
        "/admin/delete_topics/dying": None,
        "/config/topics/orders": b'{"version":1,"config":{"a":"1"}}',
        "/config/topics/dying": b"{}",
        "/config/users/alice/clients/app": b'{"version":1,"config":{}}',
        "/config/changes/config_change_0000000001": b"{}",
        "/kafka-acl/Topic/orders": b'{"version":1,"acls":[{"b":1},{"a":1}]}',
        "/kafka-acl-changes/acl_changes_0000000000": b"{}",
        "/controller_epoch": b"1",
    }
    assert must_survive(data) == {
        "/brokers/topics/orders": {"0": [1, 2]},
        "/config/topics/orders": {"a": "1"},
        "/config/users/alice/clients/app": {},
        "/kafka-acl/Topic/orders": ["{'a': 1}", "{'b': 1}"],
    }


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("/brokers/topics/t", b'{"version":2,"partitions":{"0":[1],"1":[2]}}',
         b'{"partitions":{"1":[2],"0":[1]},"topic_id":"x","version":3}'),
        ("/kafka-acl/Topic/t", b'{"version":1,"acls":[{"a":1},{"b":1}]}', b'{"acls":[{"b":1},{"a":1}],"version":1}'),
        ("/config/topics/t", b'{"version":1,"config":{"a":"1","b":"2"}}', b'{"config":{"b":"2","a":"1"},"version":1}'),
        ("/config/users/a", b'{"config":{"request_percentage":"50d"}}', b'{"config":{"request_percentage":"50.0"}}'),
        *[(f"/config/{of}", b'{"config":{"request_percentage":"50","x":"1"}}',
           b'{"config":{"x":"1","request_percentage":"50.0"}}') for of in ("users/a/clients/b", "clients/b", "ips/c")],
    ],
)  # fmt: skip
def test_two_encodings_of_the_same_content(path: str, one: bytes, other: bytes) -> None:
    assert meaning(path, one) == meaning(path, other)


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("/config/users/a", b'{"config":{"request_percentage":"50"}}', b'{"config":{"request_percentage":"50.5"}}'),
        ("/config/users/a", b'{"config":{"request_percentage":"x"}}', b'{"config":{"request_percentage":"y"}}'),
        ("/config/users/a", b'{"config":{"SCRAM-SHA-256":"1"}}', b'{"config":{"SCRAM-SHA-256":"1.0"}}'),
        ("/config/topics/a", b'{"config":{"producer_byte_rate":"1"}}', b'{"config":{"producer_byte_rate":"1.0"}}'),
    ],
)
def test_another_content(path: str, one: bytes, other: bytes) -> None:
    assert meaning(path, one) != meaning(path, other)


@pytest.mark.parametrize("data", [None, b"", b"{", b"[1]", b"7", b'{"acls":7}'])
def test_malformed_data_have_a_meaning(data: Any) -> None:
    for path in ("/brokers/topics/t", "/kafka-acl/Topic/t", "/config/topics/t"):
        assert meaning(path, data) == meaning(path, data)


def test_real_brokers_get_no_dynamic_listener_and_no_reporter() -> None:
    dynamic = (
        b'{"version":1,"config":{"listeners":"A://127.0.0.1:1","advertised.listeners":"A://h:1","x":"1",'
        b'"metric.reporters":"org.example.Reporter","max.connections.per.ip.overrides":"app.example.com:9"}}'
    )
    data = {"/config/brokers/1": dynamic, "/config/brokers/2": b"{", "/config/topics/listeners": dynamic}
    found = for_real_brokers(CopiedTree("id", data, frozenset(), frozenset(), None)).data
    assert found == {**data, "/config/brokers/1": b'{"version":1,"config":{"x":"1"}}'}
