"""The APIs of ACLs, SASL, tokens, quotas and SCRAM on a broker without any of them, and authorized operations.

Apache Kafka 3.9.1's responses to the same requests: tests/peers/test_security_apis.py.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.broker.handlers.table import OFFERED_VERSIONS
from kafka_zk.broker.security.authorizer import Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import Harness
from tests.kafka_zk.broker.handlers.data.test_fetch_authorization import Without

_TOPIC_OPERATIONS = 3576
_CLUSTER_OPERATIONS = 8096

_NOT_ASKED = -(2**31)


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Harness:
    made = harness()
    made.lead("t")
    return made


def _acl() -> Any:
    return codec.request(ApiKey.CREATE_ACLS).AclCreation(
        resource_type=2, resource_name="t", resource_pattern_type=3, principal="User:a", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip


def _acl_filter(cls: Any) -> Any:
    return cls(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip


def test_acls_are_refused_without_an_authorizer(broker: Harness) -> None:
    """Each ACL and each filter gets the error, as from AclApis."""
    describe, delete = codec.request(ApiKey.DESCRIBE_ACLS), codec.request(ApiKey.DELETE_ACLS)
    described = broker.ask(ApiKey.DESCRIBE_ACLS, 3, _acl_filter(describe))
    created = broker.ask(ApiKey.CREATE_ACLS, 3, codec.request(ApiKey.CREATE_ACLS)(creations=[_acl(), _acl()]))
    deleted = broker.ask(ApiKey.DELETE_ACLS, 3, delete(filters=[_acl_filter(delete.DeleteAclsFilter)]))
    results = [described, *created.results, *deleted.filter_results]
    assert [each.error_code for each in results] == [ErrorCode.SECURITY_DISABLED] * 4


@pytest.mark.parametrize(
    ("api_key", "denied", "request_of"),
    [
        (ApiKey.DESCRIBE_ACLS, Operation.DESCRIBE, _acl_filter),
        (ApiKey.CREATE_ACLS, Operation.ALTER, lambda cls: cls(creations=[_acl()])),
        (ApiKey.DELETE_ACLS, Operation.ALTER, lambda cls: cls(filters=[_acl_filter(cls.DeleteAclsFilter)])),
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, Operation.DESCRIBE_CONFIGS, lambda cls: cls(components=[], strict=False)),
        (ApiKey.ALTER_CLIENT_QUOTAS, Operation.ALTER_CONFIGS, lambda cls: _quota_change(cls)),
        (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, Operation.DESCRIBE, lambda cls: cls(users=None)),
    ],
)
def test_a_permission_of_the_cluster_is_needed(
    broker: Harness, api_key: ApiKey, denied: Operation, request_of: Callable[[Any], Any]
) -> None:
    broker.services.authorizer = Without(denied)
    answer = broker.ask(api_key, OFFERED_VERSIONS[api_key][1], request_of(codec.request(api_key)))
    for array in ("results", "filter_results"):
        answer = getattr(answer, array, None) or answer
    if api_key is ApiKey.ALTER_CLIENT_QUOTAS:
        answer = answer.entries
    assert (answer[0] if isinstance(answer, list) else answer).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_sasl_on_a_connection_without_authentication_is_an_illegal_state(broker: Harness) -> None:
    """The error tells clients that the listener uses no SASL."""
    handshake = codec.request(ApiKey.SASL_HANDSHAKE)(mechanism="PLAIN")
    authenticate = codec.request(ApiKey.SASL_AUTHENTICATE)(auth_bytes=b"\0a\0b")
    for version in (0, 1):
        assert broker.ask(ApiKey.SASL_HANDSHAKE, version, handshake).error_code == ErrorCode.ILLEGAL_SASL_STATE
    for version in (0, 1, 2):
        answer = broker.ask(ApiKey.SASL_AUTHENTICATE, version, authenticate)
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_delegation_tokens_are_not_allowed_on_a_connection_without_authentication(broker: Harness) -> None:
    create = codec.request(ApiKey.CREATE_DELEGATION_TOKEN)
    requests = {
        ApiKey.CREATE_DELEGATION_TOKEN: create(renewers=[], max_lifetime_ms=-1),
        ApiKey.RENEW_DELEGATION_TOKEN: codec.request(ApiKey.RENEW_DELEGATION_TOKEN)(hmac=b"x", renew_period_ms=1),
        ApiKey.EXPIRE_DELEGATION_TOKEN: codec.request(ApiKey.EXPIRE_DELEGATION_TOKEN)(
            hmac=b"x", expiry_time_period_ms=1
        ),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: codec.request(ApiKey.DESCRIBE_DELEGATION_TOKEN)(owners=None),
    }
    for api_key, request in requests.items():
        answer = broker.ask(api_key, OFFERED_VERSIONS[api_key][1], request)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, api_key


def _quota_change(cls: Any) -> Any:
    entry = cls.EntryData
    return cls(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="user", entity_name="a")],
                ops=[entry.OpData(key="producer_byte_rate", value=1.0, remove=False)],
            )
        ],
        validate_only=True,
    )


def _metadata(version: int, **asked: bool) -> Any:
    request = codec.request(ApiKey.METADATA)
    topics = [request.MetadataRequestTopic(name=name) for name in ("t", "none")]
    return request(topics=topics, allow_auto_topic_creation=False, **asked)


@pytest.mark.parametrize("version", range(8, 13))
def test_metadata_show_authorized_operations_if_asked(broker: Harness, version: int) -> None:
    """Versions up to 10 also have the cluster's operations. The encoded topic that clients share does not change."""
    for _ in range(2):
        asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
        answer = broker.ask(ApiKey.METADATA, version, _metadata(version, **asked))
        assert [each.topic_authorized_operations for each in answer.topics] == [_TOPIC_OPERATIONS] * 2
        assert answer.cluster_authorized_operations == (_CLUSTER_OPERATIONS if version <= 10 else _NOT_ASKED)
        answer = broker.ask(ApiKey.METADATA, version, _metadata(version))
        assert [each.topic_authorized_operations for each in answer.topics] == [_NOT_ASKED] * 2
        assert answer.cluster_authorized_operations == _NOT_ASKED


def test_metadata_show_operations_of_a_topic_in_many_chunks(harness: Callable[..., Harness]) -> None:
    broker = harness()
    broker.lead("t", partitions=600)
    answer = broker.ask(ApiKey.METADATA, 12, _metadata(12, include_topic_authorized_operations=True))
    assert len(answer.topics[0].partitions) == 600
    assert answer.topics[0].topic_authorized_operations == _TOPIC_OPERATIONS


def test_operations_without_permission_are_left_out(broker: Harness) -> None:
    """Without Describe of the cluster the response has no cluster operations (KIP-430)."""
    both = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    broker.services.authorizer = Without(Operation.WRITE)
    answer = broker.ask(ApiKey.METADATA, 10, _metadata(10, **both))
    assert answer.topics[0].topic_authorized_operations == _TOPIC_OPERATIONS - (1 << Operation.WRITE)
    broker.services.authorizer = Without(Operation.DESCRIBE)
    answer = broker.ask(ApiKey.METADATA, 10, _metadata(10, **both))
    assert answer.cluster_authorized_operations == 0
    assert answer.topics[0].topic_authorized_operations == _NOT_ASKED  # TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [0, 1])
def test_describe_cluster_asks_for_no_permission(broker: Harness, version: int) -> None:
    """Only the authorized operations need Describe."""
    request = codec.request(ApiKey.DESCRIBE_CLUSTER)
    asked = request(include_cluster_authorized_operations=True)
    assert broker.ask(ApiKey.DESCRIBE_CLUSTER, version, asked).cluster_authorized_operations == _CLUSTER_OPERATIONS
    broker.services.authorizer = Without(Operation.DESCRIBE)
    answer = broker.ask(ApiKey.DESCRIBE_CLUSTER, version, asked)
    assert (answer.error_code, [each.broker_id for each in answer.brokers]) == (0, [0])
    assert answer.cluster_authorized_operations == 0
    assert broker.ask(ApiKey.DESCRIBE_CLUSTER, version, request()).cluster_authorized_operations == _NOT_ASKED


def test_describe_cluster_refuses_unknown_endpoint_types(broker: Harness) -> None:
    request = codec.request(ApiKey.DESCRIBE_CLUSTER)
    for endpoint_type, code in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
        answer = broker.ask(ApiKey.DESCRIBE_CLUSTER, 1, request(endpoint_type=endpoint_type))
        assert (answer.error_code, answer.brokers) == (code, [])


def test_the_owner_of_a_token_needs_a_type(broker: Harness) -> None:
    """Type and name are nullable in the request, but not in the response, so Kafka responds as to any failure."""
    request = codec.request(ApiKey.CREATE_DELEGATION_TOKEN)
    owned = request(owner_principal_type=None, owner_principal_name="alice", renewers=[], max_lifetime_ms=-1)
    answer = broker.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, owned)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (answer.principal_type, answer.principal_name) == ("User", "ANONYMOUS")
    owned.owner_principal_type = "User"
    answer = broker.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, owned)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (answer.principal_type, answer.principal_name) == ("User", "alice")
