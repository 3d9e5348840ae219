"""Every API requires the same permissions as Kafka's and returns Kafka's error: the rows of ``tests/acl_rows.py``.

The same rows against Apache Kafka 3.9.1: tests/peers/authorization/test_acl_rows.py.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.handlers.table import OFFERED_VERSIONS
from kafka_zk.broker.security.acl_authorizer import AclAuthorizer
from kafka_zk.broker.security.acl_rules import AclRules
from kafka_zk.broker.security.denials import Denials
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.acls import AclRegistry
from tests import acl_rows
from tests.acl_rows import OK, REFUSALS, REQUESTS, ROWS, USER, Request, Row
from tests.kafka_zk.broker.conftest import CONTEXT, Harness
from tests.registry.world import World

USER_CONTEXT = CONTEXT._replace(principal=USER)
_NEVER_ASK = {
    ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
}  # fmt: skip
_TOKENS = {
    ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}  # fmt: skip


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Harness:
    made = harness()
    made.lead("t")
    made.lead(OFFSETS_TOPIC, 50)
    committed = REQUESTS["OffsetCommit"]
    assert acl_rows.codes(made.ask(committed.api_key, committed.version, acl_rows.message(committed))) == {0}
    return made


def authorize_by(broker: Harness, acls: str) -> AclAuthorizer:
    """Set the ACLs that rows have as strings, without a working ZooKeeper."""
    world = World(1)
    rules = AclRules({"User:ANONYMOUS"})
    for pattern, entries in acl_rows.parsed(acls).items():
        rules.put(pattern, entries)
    client = world.clients[0]
    authorizer = AclAuthorizer(client, AclRegistry(client), broker.clock, rules, Denials(broker.clock))
    authorizer.is_loaded = True
    broker.services.authorizer = authorizer
    return authorizer


def ask(broker: Harness, request: Request) -> Any:
    """The response; None if the request waits, which means that it was authorized."""
    answers: list[Any] = []
    started = broker.start(request.api_key, request.version, acl_rows.message(request), USER_CONTEXT)
    started.addCallbacks(answers.append)
    return answers[0] if answers else None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.request}-{row.acls or 'nothing'}")
def test_a_user_gets_the_error_that_kafka_gives(broker: Harness, row: Row) -> None:
    authorizer = authorize_by(broker, row.acls)
    response = ask(broker, REQUESTS[row.request])
    found = frozenset() if response is None else acl_rows.codes(response)
    assert found & REFUSALS == ({row.code} if row.code is not OK else frozenset())
    is_refused = row.code is not OK and "internal" not in row.request  # internal topics are closed, whatever the ACLs
    assert (authorizer.denials.count > 0) is is_refused, "a refusal, and nothing else, is logged as a denial"


def test_every_api_has_rows_or_asks_for_nothing() -> None:
    tried = {REQUESTS[row.request].api_key for row in ROWS if row.code is not OK or row.acls == ""}
    untried = OFFERED_VERSIONS.keys() - tried
    assert untried == _NEVER_ASK | _TOKENS, "give each new API rows in tests/acl_rows.py, or add it to _NEVER_ASK"


def topics_of(broker: Harness, **fields: Any) -> list[Any]:
    return list(ask(broker, Request(ApiKey.METADATA, 12, fields)).topics)


def test_metadata_does_not_tell_what_may_not_be_described(broker: Harness) -> None:
    """Existing and missing topics get the same response; a list of all topics leaves them out."""
    topic_id = broker.lead("secret")
    authorize_by(broker, "Describe Topic t")
    known, unknown = topics_of(broker, topics=[{"name": "secret"}, {"name": "none"}], allow_auto_topic_creation=False)
    for topic in (known, unknown):
        assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (topic.topic_id, topic.partitions, topic.is_internal) == (None, [], False)
        assert topic.topic_authorized_operations == -(2**31)
    (by_id,) = topics_of(broker, topics=[{"name": None, "topic_id": topic_id}], allow_auto_topic_creation=False)
    assert (by_id.name, by_id.topic_id, by_id.partitions) == (None, topic_id, [])
    assert [topic.name for topic in topics_of(broker, topics=None)] == ["t"]


def test_topics_are_deleted_by_id_without_telling_their_names(broker: Harness) -> None:
    topic_id = broker.lead("secret")
    request = Request(
        ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": None, "topic_id": topic_id}], "timeout_ms": 1}
    )
    for acls, name in (("", None), ("Delete Topic t", None), ("Describe Topic secret", "secret")):
        authorize_by(broker, acls)
        (result,) = ask(broker, request).responses
        assert (result.error_code, result.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    assert broker.topics.ordered_deletions == []


@pytest.mark.parametrize(
    ("is_controller", "enable", "code"),
    [(False, "true", ErrorCode.NOT_CONTROLLER), (True, "false", ErrorCode.TOPIC_DELETION_DISABLED)],
)
def test_a_broker_that_deletes_nothing_tells_no_names_either(
    harness: Callable[..., Harness], is_controller: bool, enable: str, code: ErrorCode
) -> None:
    broker = harness(delete_topic_enable=enable)
    topic_id = broker.lead("secret")
    broker.services.controller.is_active = is_controller  # type: ignore[misc]
    authorize_by(broker, "")
    wanted = {"topics": [{"name": None, "topic_id": topic_id}], "timeout_ms": 1}
    (result,) = ask(broker, Request(ApiKey.DELETE_TOPICS, 6, wanted)).responses
    assert (result.error_code, result.name, result.topic_id) == (code, None, topic_id)


@pytest.mark.parametrize(
    ("acls", "topic", "cluster"),
    [
        ("Describe Topic t", 1 << 8, 0),
        ("Read Topic t", 1 << 3 | 1 << 8, 0),
        ("All Topic t, !Alter Topic t", 3576 & ~(1 << 7), 0),
        ("All Topic *, All Cluster kafka-cluster", 3576, 8096),
        ("Describe Topic t, Create Cluster kafka-cluster", 1 << 8, 0),
    ],
)
def test_authorized_operations_are_those_of_the_user(broker: Harness, acls: str, topic: int, cluster: int) -> None:
    authorizer = authorize_by(broker, acls)
    response = ask(broker, Request(ApiKey.METADATA, 10, {
        "topics": [{"name": "t"}], "allow_auto_topic_creation": False, "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }))  # fmt: skip
    assert response.topics[0].topic_authorized_operations == topic
    assert response.cluster_authorized_operations == cluster
    assert authorizer.denials.count == 0, "no request was refused"


def test_a_created_topic_shows_its_configuration_to_those_who_may_see_it(broker: Harness) -> None:
    for acls, is_shown in (("Create Topic new", False), ("Create Topic new, DescribeConfigs Topic new", True)):
        authorize_by(broker, acls)
        (result,) = ask(broker, REQUESTS["CreateTopics"]).topics
        told = (result.topic_config_error_code, result.num_partitions, bool(result.configs))
        hidden = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, False)
        assert (told == hidden) is not is_shown and result.error_code == 0
