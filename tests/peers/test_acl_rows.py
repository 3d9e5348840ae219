"""The cases of AuthorizerIntegrationTest, sent to Apache Kafka 3.9.1 and to ours: every error code of a response is the
same. The rows are in ``tests/acl_rows.py``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests import acl_rows
from tests.acl_rows import OK, REFUSALS, REQUESTS, ROWS, Request, Row
from tests.peers import targets
from tests.peers.authorized_kafka import PASSWORD, USER, AuthorizedBroker, ask, authorized_brokers
from tests.peers.processes import wait_until

pytestmark = pytest.mark.peers

_BUSY = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
_TIMEOUT_S = 60
_DIFFERENT_BY_DESIGN = {
    "ControlledShutdown",  # of a broker that there is not: ours says so
    "AlterConfigs of a broker",  # ours cannot change this key while it runs
    "IncrementalAlterConfigs of a broker",
}
"""Requests whose codes differ where they are allowed."""


@pytest.fixture(scope="module")
def brokers(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AuthorizedBroker]]:
    """Each with the topic t, a group g that has committed for it, and the coordinator of the transactional id x."""
    folder = tmp_path_factory.mktemp("authorized")
    chroots = [f"acl-rows-{name}" for name in targets.NAMES]
    with authorized_brokers(peer_zookeeper, folder, targets.NAMES, chroots) as started:
        with ThreadPoolExecutor() as pool:
            list(pool.map(_prepare, started))
        yield started


def _prepare(broker: AuthorizedBroker) -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    create = Request(ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout_ms": 30_000, "validate_only": False})
    wait_until(lambda: acl_rows.codes(ask(broker.port, create)) <= {0, 36}, _TIMEOUT_S, "the topic")
    for name in ("FindCoordinator", "FindCoordinator of a transaction", "OffsetCommit", "EndTxn"):
        wait_until(
            lambda name=name: not acl_rows.codes(ask(broker.port, REQUESTS[name])) & _BUSY,  # type: ignore[misc]
            _TIMEOUT_S,
            name,
        )


def _codes(broker: AuthorizedBroker, row: Row) -> frozenset[int]:
    broker.set_acls(acl_rows.parsed(row.acls))
    codes: frozenset[int] = frozenset(_BUSY)
    while codes & _BUSY:  # the first producer id has to be fetched
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
