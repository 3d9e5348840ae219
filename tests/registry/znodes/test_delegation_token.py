"""The znode of a delegation token: as written by Kafka 3.9.1, older versions, and invalid content."""

import json

import pytest

from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import delegation_token as znodes
from kafka_zk.registry.znodes.delegation_token import Principal, TokenInformation

ID = "BDfoJ0IkQB2qeaJLdBMIWg"
PATH = f"/delegation_token/tokens/{ID}"
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
OF_KAFKA = (
    b'{"issueTimestamp":1795737658262,"renewers":["User%3Abob"],"tokenRequester":"User%3Aalice",'
    b'"tokenId":"BDfoJ0IkQB2qeaJLdBMIWg","owner":"User%3Aalice","expiryTimestamp":1795738258262,'
    b'"maxTimestamp":1795738258262,"version":3}'
)
TOKEN = TokenInformation(ID, ALICE, ALICE, (BOB,), 1795737658262, 1795738258262, 1795738258262)


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(OF_KAFKA), **fields}).encode()


def test_it_is_read_and_written_as_kafka_does() -> None:
    """Times are JSON numbers, because Kafka does not accept strings for them."""
    assert znodes.decode(PATH, OF_KAFKA) == TOKEN
    assert json.loads(znodes.encode(TOKEN)) == json.loads(OF_KAFKA)


def test_before_version_3_the_owner_has_asked_for_it() -> None:
    document = json.loads(changed(version=2))
    del document["tokenRequester"]
    assert znodes.decode(PATH, json.dumps(document).encode()) == TOKEN


def test_names_with_any_letters_come_back() -> None:
    token = TOKEN._replace(owner=Principal("User", "CN=a,O=b c/ü:*"), renewers=())
    assert znodes.decode(PATH, znodes.encode(token)) == token


@pytest.mark.parametrize(
    "data",
    [
        None, b"", b"[]", b"{}", changed(version=4), changed(version=0), changed(owner="alice"), changed(owner=1),
        changed(renewers="User%3Abob"), changed(renewers=["bob"]), changed(renewers=["User:a"] * 1001),
        changed(expiryTimestamp=2**63), changed(maxTimestamp=1.5), changed(tokenId="another"),
    ],
)  # fmt: skip
def test_invalid_content_is_refused(data: bytes | None) -> None:
    with pytest.raises(InvalidZnode):
        znodes.decode(PATH, data)


def test_an_announcement_is_the_id() -> None:
    assert znodes.decode_change("/c", znodes.encode_change(ID)) == ID
    for data in (None, b"", b"a/b", b"..", b"a\0"):
        with pytest.raises(InvalidZnode):
            znodes.decode_change("/c", data)
