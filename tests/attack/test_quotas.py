"""I: a broker's memory of its clients and of the names they use has a ceiling, whatever the names.

The broker has ACLs and quotas, so that each name needs a decision, and each client id is counted.
"""

import struct
from collections.abc import Callable

import pytest

from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import request_header
from kafka_zk.security.acl import Operation, PatternType, Permission, ResourceType
from tests.attack import payloads
from tests.attack.siege import Siege

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

COUNTS = [100_000, pytest.param(1_000_000, marks=pytest.mark.soak)]
"""A broker remembers fewer names than either number."""
DEADLINE_S = 600.0

_GENEROUS = {"producer_byte_rate": 1e15, "request_percentage": 1e9}
_AT_ONCE = 500
_METADATA_VERSION = 4
_SECRET = "secret-"
_NUMBER = b"%07d"


def _alteration(*, remove: bool) -> bytes:
    request = codec.request(ApiKey.ALTER_CLIENT_QUOTAS)
    entry = request.EntryData
    wanted = entry(
        entity=[entry.EntityData(entity_type="client-id", entity_name=None)],
        ops=[entry.OpData(key=key, value=value, remove=remove) for key, value in _GENEROUS.items()],
    )
    body = bytes(codec.encode_body(request(entries=[wanted], validate_only=False), ApiKey.ALTER_CLIENT_QUOTAS, 0))
    return payloads.frame(ApiKey.ALTER_CLIENT_QUOTAS, 0, body)


def _acl_for_alice() -> bytes:
    """Only alice may use the topics whose names begin with _SECRET."""
    request = codec.request(ApiKey.CREATE_ACLS)
    creation = request.AclCreation(
        resource_type=ResourceType.TOPIC, resource_name=_SECRET, resource_pattern_type=PatternType.PREFIXED,
        principal="User:alice", host="*", operation=Operation.READ, permission_type=Permission.ALLOW,
    )  # fmt: skip
    return payloads.frame(
        ApiKey.CREATE_ACLS, 1, bytes(codec.encode_body(request(creations=[creation]), ApiKey.CREATE_ACLS, 1))
    )


def _heartbeat(client_id: bytes) -> bytes:
    message = codec.request(ApiKey.HEARTBEAT)(group_id="none", generation_id=1, member_id="")
    body = bytes(codec.encode_body(message, ApiKey.HEARTBEAT, 0))
    frame = request_header(ApiKey.HEARTBEAT, 0, 1, client_id.decode()) + body
    return struct.pack(">i", len(frame)) + frame


def _metadata(kinds: tuple[bytes, ...], first: int) -> bytes:
    """A Metadata request for _AT_ONCE topics, which must not be created."""
    names = [kinds[number % len(kinds)] + _NUMBER % number for number in range(first, first + _AT_ONCE)]
    topics = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return payloads.frame(ApiKey.METADATA, _METADATA_VERSION, struct.pack(">i", _AT_ONCE) + topics + b"\0")


@pytest.fixture
def siege(make_siege: Callable[..., Siege]) -> Siege:
    """The siege of a broker with an ACL, and a quota for each client id."""
    made = make_siege(
        properties={"authorizer.class.name": ACL_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    )
    for honest in (_acl_for_alice(), _alteration(remove=False)):
        made.victim.ask(honest)
    return made


@pytest.mark.parametrize("count", COUNTS)
def test_client_ids_without_end(siege: Siege, count: int) -> None:
    """The ids are short, except 2,000 of 20 KB."""
    before, _, after = _heartbeat(b"client 0000000").partition(b"0000000")

    def attack() -> None:
        connection = siege.victim.connect()
        for first in range(0, count, _AT_ONCE):
            connection.send(b"".join(before + _NUMBER % (first + number) + after for number in range(_AT_ONCE)))
            for _ in range(_AT_ONCE):
                connection.answer()
        for number in range(2_000):
            connection.ask(_heartbeat(b"%05d" % number * 4_000))
        connection.ask(_alteration(remove=True))
        connection.close()

    siege(f"I {count + 2_000:,} client ids with quotas", attack, deadline_s=DEADLINE_S)


@pytest.mark.parametrize("count", COUNTS)
def test_topic_names_without_end(siege: Siege, count: int) -> None:
    """The topics do not exist, and every other name is denied: neither the log nor the memory grows with them."""
    kinds = (_SECRET.encode(), b"absent-")
    position = siege.victim.log_size()

    def attack() -> None:
        connection = siege.victim.connect()
        for first in range(0, count, _AT_ONCE):
            answer = connection.ask(_metadata(kinds, first))
            assert answer is not None
            topics = codec.decode_response(ApiKey.METADATA, _METADATA_VERSION, answer[4:]).topics if not first else ()
            assert [each.error_code for each in topics[:2]] in (
                [], [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            )  # fmt: skip
        connection.close()

    siege(f"I {count:,} topic names with ACLs", attack, deadline_s=DEADLINE_S)
    assert siege.victim.log_size() - position < 1_000_000
