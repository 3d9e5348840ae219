"""The cases of Kafka's AuthorizerIntegrationTest@3.9 in which a response leaves out what a user may not see.

The setup is that of ``acl_rows``. In addition, groups h and k have committed offsets of topic t, and transaction y has
written to it and is open.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka_zk.protocol.api_keys import ApiKey
from tests.acl_rows import Request
from tests.message_dicts import as_dict

_NAMES = frozenset(["name", "topic", "group_id", "transactional_id"])
_OPERATIONS = ("topic_authorized_operations", "cluster_authorized_operations", "authorized_operations")
_C = "Cluster kafka-cluster"
DESCRIBE, ALTER = 1 << 8, 1 << 7


def _metadata(version: int) -> Request:
    return Request(ApiKey.METADATA, version, {
        "topics": [], "allow_auto_topic_creation": True, "include_cluster_authorized_operations": True,
    })  # fmt: skip


def _describe_cluster(version: int) -> Request:
    return Request(ApiKey.DESCRIBE_CLUSTER, version, {"include_cluster_authorized_operations": True})


ALL_TOPICS = Request(ApiKey.METADATA, 12, {"topics": None, "allow_auto_topic_creation": False})
ONE_TOPIC = Request(ApiKey.METADATA, 10, {
    "topics": [{"name": "t"}], "allow_auto_topic_creation": False, "include_topic_authorized_operations": True,
})  # fmt: skip
ALL_OFFSETS = Request(ApiKey.OFFSET_FETCH, 7, {"group_id": "k", "topics": None, "require_stable": False})
OFFSETS_OF_GROUPS = Request(ApiKey.OFFSET_FETCH, 8, {
    "groups": [
        {"group_id": "k", "topics": [{"name": "t", "partition_indexes": [0]}]},
        {"group_id": "h", "topics": None},
    ],
    "require_stable": False,
})  # fmt: skip
LIST_GROUPS = Request(ApiKey.LIST_GROUPS, 4, {"states_filter": []})
DESCRIBE_GROUP = Request(ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["k"], "include_authorized_operations": True})
LIST_TRANSACTIONS = Request(ApiKey.LIST_TRANSACTIONS, 0, {"state_filters": [], "producer_id_filters": []})
DESCRIBE_TRANSACTION = Request(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["y"]})


class Visible(NamedTuple):
    """What a user with these ACLs sees: names, codes (``29``) and operations (``operations 256``)."""

    request: Request
    acls: str
    seen: frozenset[str]


def _row(request: Request, acls: str, *seen: str) -> Visible:
    return Visible(request, acls, frozenset(seen))


def _rows() -> Iterator[Visible]:
    yield _row(ALL_TOPICS, "")
    yield _row(ALL_TOPICS, "Read Topic t", "t")
    yield _row(ALL_TOPICS, "Create Topic t")
    yield _row(ONE_TOPIC, "", "t", "29")
    yield _row(ONE_TOPIC, "Alter Topic t", "t", f"operations {DESCRIBE | ALTER}")
    yield _row(ALL_OFFSETS, "", "30")
    yield _row(ALL_OFFSETS, "Read Group k")
    yield _row(ALL_OFFSETS, "Read Group k, Describe Topic t", "t")
    yield _row(OFFSETS_OF_GROUPS, "", "k", "h", "30")
    yield _row(OFFSETS_OF_GROUPS, "Read Group k", "k", "h", "t", "29", "30")
    yield _row(OFFSETS_OF_GROUPS, "Read Group h", "k", "h", "30")
    yield _row(OFFSETS_OF_GROUPS, "Read Group h, Describe Topic t", "k", "h", "t", "30")
    yield _row(OFFSETS_OF_GROUPS, "Describe Group *", "k", "h", "t", "29")
    yield _row(OFFSETS_OF_GROUPS, "Describe Group *, Describe Topic *", "k", "h", "t")
    yield _row(LIST_GROUPS, "")
    yield _row(LIST_GROUPS, "Read Group k", "k")
    yield _row(LIST_GROUPS, "Describe Group h", "h")
    yield _row(LIST_GROUPS, f"Describe {_C}", "k", "h")
    yield _row(LIST_GROUPS, f"Alter {_C}", "k", "h")
    yield _row(DESCRIBE_GROUP, "", "k", "30")
    yield _row(DESCRIBE_GROUP, "Read Group k", "k", f"operations {DESCRIBE | 1 << 3}")
    yield _row(LIST_TRANSACTIONS, "")
    yield _row(LIST_TRANSACTIONS, "Write Topic t")
    yield _row(LIST_TRANSACTIONS, "Write TransactionalId y", "y")
    yield _row(LIST_TRANSACTIONS, "Describe TransactionalId y", "y")
    yield _row(DESCRIBE_TRANSACTION, "", "y", "53")
    yield _row(DESCRIBE_TRANSACTION, "Write TransactionalId y", "y")
    yield _row(DESCRIBE_TRANSACTION, "Describe TransactionalId y, Describe Topic t", "y", "t")
    for version in (8, 9, 10):
        yield _row(_metadata(version), "", "operations 0")
        yield _row(_metadata(version), f"Describe {_C}, Alter {_C}", f"operations {DESCRIBE | ALTER}")
    for version in (0, 1):
        yield _row(_describe_cluster(version), "", "operations 0")
        yield _row(_describe_cluster(version), f"Describe {_C}, Alter {_C}", f"operations {DESCRIBE | ALTER}")


ROWS = list(_rows())


def seen(response: Any) -> frozenset[str]:
    """The names, codes and operations anywhere in a response."""
    return frozenset(_seen(as_dict(response)))


def _seen(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _seen(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in _NAMES and each:
                yield str(each)
            elif name == "error_code" and each:
                yield str(int(each))
            elif name in _OPERATIONS and each != -(2**31):
                yield f"operations {each}"
            else:
                yield from _seen(each)
