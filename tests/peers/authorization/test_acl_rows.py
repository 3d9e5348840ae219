"""The cases of AuthorizerIntegrationTest, sent to Apache Kafka 3.9.1 and to ours: every error code of a response is
equal, and so are the names that it shows. The rows are in ``tests/acl_rows.py`` and ``tests/acl_visible.py``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests import acl_rows, acl_visible
from tests.acl_rows import OK, REFUSALS, REQUESTS, ROWS, Request, Row
from tests.acl_visible import Visible
from tests.peers import targets
from tests.peers.authorization.authorized_kafka import PASSWORD, USER, AuthorizedBroker, ask, authorized_brokers
from tests.peers.processes import wait_until

pytestmark = pytest.mark.peers

_BUSY = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
_TIMEOUT_S = 60
_DIFFERENT_BY_DESIGN = {
    "ControlledShutdown",  # of a broker that does not exist: ours reports this
    "AlterConfigs of a broker",  # ours cannot change this key while it runs
    "IncrementalAlterConfigs of a broker",
    "IncrementalAlterConfigs of a logger",  # ours has no log levels that change while it runs
    "DescribeConfigs of a logger",
}
"""Requests whose codes differ where they are allowed."""
_OF_OTHER_ROWS = {"g", "u3", "u4", "__consumer_offsets", "__transaction_state"}
"""Names that the rows about error codes create."""


@pytest.fixture(scope="module")
def brokers(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AuthorizedBroker]]:
    """Brokers with the topic t, groups g, h and k that have committed for it, the coordinator of the transactional id
    x, and the open transaction y.
    """
    folder = tmp_path_factory.mktemp("authorized")
    chroots = [f"acl-rows-{name}" for name in targets.NAMES]
    with authorized_brokers(peer_zookeeper, folder, targets.NAMES, chroots) as started:
        with ThreadPoolExecutor() as pool:
            list(pool.map(_prepare, started))
        yield started


def _prepare(broker: AuthorizedBroker) -> None:
    keep = {"name": "retention.ms", "value": "-1"}  # the rows' records have old timestamps
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [keep]}
    create = Request(ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
    wait_until(lambda: acl_rows.codes(ask(broker.port, create)) <= {0, 36}, _TIMEOUT_S, "the topic")
    for name in ("FindCoordinator", "FindCoordinator of a transaction", "OffsetCommit", "EndTxn"):
        wait_until(
            lambda name=name: not acl_rows.codes(ask(broker.port, REQUESTS[name])) & _BUSY,  # type: ignore[misc]
            _TIMEOUT_S,
            name,
        )
    for group in ("h", "k"):
        commit = Request(ApiKey.OFFSET_COMMIT, 8, {**REQUESTS["OffsetCommit"].fields, "group_id": group})
        assert acl_rows.codes(ask(broker.port, commit)) == {0}
    _begin_transaction(broker)


def _begin_transaction(broker: AuthorizedBroker) -> None:
    wanted = {"transactional_id": "y", "transaction_timeout_ms": 900_000, "producer_id": -1, "producer_epoch": -1}
    begin = Request(ApiKey.INIT_PRODUCER_ID, 4, wanted)
    wait_until(lambda: not acl_rows.codes(ask(broker.port, begin)) & _BUSY, _TIMEOUT_S, "the coordinator of y")
    begun = ask(broker.port, begin)
    add = Request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, {
        "v3_and_below_transactional_id": "y", "v3_and_below_producer_id": begun.producer_id,
        "v3_and_below_producer_epoch": begun.producer_epoch,
        "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
    })  # fmt: skip
    wait_until(lambda: acl_rows.codes(ask(broker.port, add)) == {0}, _TIMEOUT_S, "a transaction")


def _codes(broker: AuthorizedBroker, row: Row) -> frozenset[int]:
    broker.set_acls(acl_rows.parsed(row.acls))
    codes: frozenset[int] = frozenset(_BUSY)
    while codes & _BUSY:  # the first producer id must be fetched
        codes = acl_rows.codes(ask(broker.client_port, REQUESTS[row.request], (USER, PASSWORD)))
    return codes


@pytest.mark.parametrize("request_name", REQUESTS)
def test_the_codes_are_those_of_apache_kafka(brokers: list[AuthorizedBroker], request_name: str) -> None:
    wrong = []
    for row in ROWS:
        if row.request != request_name:
            continue
        ours, theirs = (_codes(broker, row) for broker in brokers)
        expected = frozenset() if row.code is OK else {row.code}
        is_as_expected = ours & REFUSALS == theirs & REFUSALS == expected
        if not is_as_expected or (ours != theirs and request_name not in _DIFFERENT_BY_DESIGN):
            wrong.append((row, sorted(ours), sorted(theirs)))
    assert wrong == []


@pytest.mark.parametrize("row", acl_visible.ROWS, ids=lambda row: f"{row.request.api_key.name}-{row.acls or 'nothing'}")
def test_what_is_shown_is_what_apache_kafka_shows(brokers: list[AuthorizedBroker], row: Visible) -> None:
    found = []
    for broker in brokers:
        broker.set_acls(acl_rows.parsed(row.acls))
        found.append(acl_visible.seen(ask(broker.client_port, row.request, (USER, PASSWORD))) - _OF_OTHER_ROWS)
    ours, theirs = found
    assert ours == theirs == row.seen


def test_topics_are_deleted_by_id_as_by_apache_kafka(brokers: list[AuthorizedBroker]) -> None:
    """testTopicIdAuthorization: a code and the name, for a topic that exists and one that does not."""
    for broker in brokers:
        topic = {"name": "d", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        create = Request(ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
        (created,) = ask(broker.port, create).topics
        found = {
            (acls, is_there): _deleted(broker, acls, created.topic_id if is_there else uuid.uuid4())
            for is_there in (False, True)
            for acls in ("", "Delete Topic e", "Describe Topic d", "Delete Topic d")
        }
        assert found == {
            **{(acls, False): (100, None) for acls in ("", "Delete Topic e", "Describe Topic d", "Delete Topic d")},
            ("", True): (29, None),
            ("Delete Topic e", True): (29, None),
            ("Describe Topic d", True): (29, "d"),
            ("Delete Topic d", True): (0, "d"),
        }, broker.name


def _deleted(broker: AuthorizedBroker, acls: str, topic_id: uuid.UUID) -> tuple[int, str | None]:
    broker.set_acls(acl_rows.parsed(acls))
    wanted = {"topics": [{"name": None, "topic_id": topic_id}], "timeout_ms": 30_000}
    (result,) = ask(broker.client_port, Request(ApiKey.DELETE_TOPICS, 6, wanted), (USER, PASSWORD)).responses
    return result.error_code, result.name


def _is_listed(broker: AuthorizedBroker, group: str) -> bool:
    return group in acl_visible.seen(ask(broker.port, acl_visible.LIST_GROUPS))


def _asked_of(broker: AuthorizedBroker, name: str, group: str) -> frozenset[int]:
    """The codes of a request of the rows, about another group."""
    request = REQUESTS[name]._replace(fields={**REQUESTS[name].fields, "group_id": group})
    codes: frozenset[int] = frozenset(_BUSY)
    while codes & _BUSY:
        codes = acl_rows.codes(ask(broker.port, request))
    return codes


def test_a_group_is_gone_with_its_last_offset(brokers: list[AuthorizedBroker]) -> None:
    """GroupMetadataManager.cleanupGroupMetadata: the group is removed at once, because it has no members."""
    for broker in brokers:
        assert _asked_of(broker, "OffsetCommit", "one-offset") == {0}
        assert _is_listed(broker, "one-offset")
        assert _asked_of(broker, "OffsetDelete", "one-offset") == {0}
        assert not _is_listed(broker, "one-offset")


def test_a_refused_transaction_leaves_its_group_until_the_cleanup(brokers: list[AuthorizedBroker]) -> None:
    """GroupCoordinator.handleTxnCommitOffsets creates the group before it verifies the transaction."""
    for broker in brokers:
        assert 0 not in _asked_of(broker, "TxnOffsetCommit", "never-committed")
        assert _is_listed(broker, "never-committed")
