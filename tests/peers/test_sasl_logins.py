"""Logins, sessions and tokens, case by case, at Apache Kafka 3.9.1 and at our broker in one cluster with it."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.security import scram
from kafka_zk.security.unsecured_jws import encode
from tests.peers import java
from tests.peers.processes import wait_until
from tests.peers.sasl_pair import KAFKA, OURS, SESSION_MS, USERS, SaslPair, sasl_pair
from tests.peers.sasl_probe import CLOSED, SaslProbe

pytestmark = pytest.mark.peers

_TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
_CONFIGS = "kafka.admin.ConfigCommand"
_TOPICS = "org.apache.kafka.tools.TopicCommand"
_KNOWN_WITHIN_S = 20
CLIENT_HELLO = b"\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03" + bytes(58)
"""The first bytes of TLS; read as a frame's size they are 369 million."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslPair]:
    with sasl_pair(tmp_path_factory.mktemp("pair")) as running:
        yield running


def plain(user: str = "alice", password: str | None = None) -> bytes:
    return f"\0{user}\0{USERS[user] if password is None else password}".encode()


def log_in(probe: SaslProbe, user: str = "alice", version: int = 2) -> list[Any]:
    return [probe.handshake("PLAIN"), probe.authenticate(plain(user), version)]


def after_session(probe: SaslProbe, version: int, then: Callable[[SaslProbe], Any]) -> list[Any]:
    logged_in = log_in(probe, version=version)
    time.sleep(SESSION_MS / 1000 + 0.5)
    return [*logged_in, then(probe)]


def again(probe: SaslProbe, *, after_s: float = 0) -> list[Any]:
    first = log_in(probe)
    second = log_in(probe)
    time.sleep(after_s)
    return [*first, *second, probe.handshake("PLAIN"), probe.groups()]


def scram_login(user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> Callable[[SaslProbe], Any]:
    return lambda probe: probe.exchange(mechanism, scram.scram_client(mechanism, user, password, "abcdef"))


def bearer(token: str, authzid: str = "") -> bytes:
    return f"n,{authzid},\x01auth=Bearer {token}\x01\x01".encode()


def unsecured(**claims: object) -> str:
    now_s = int(time.time())
    wanted = {"sub": "alice", "iat": now_s, "exp": now_s + 3600, "scope": ["kafka"], **claims}
    return encode({"alg": "none"}, {name: value for name, value in wanted.items() if value is not None})


def with_token(token: Callable[[], str], authzid: str = "") -> Callable[[SaslProbe], Any]:
    def row(probe: SaslProbe) -> list[Any]:
        answers = [probe.handshake("OAUTHBEARER"), probe.authenticate(bearer(token(), authzid))]
        if answers[1] != CLOSED and answers[1][2]:
            answers.append(probe.authenticate(b"\x01"))
        return [*answers[1:], probe.groups()]

    return row


def interrupted(api_key: ApiKey, version: int, **fields: Any) -> Callable[[SaslProbe], Any]:
    """Send another request instead of the mechanism's first message. Kafka's text depends on the API; the code does
    not.
    """

    def row(probe: SaslProbe) -> list[Any]:
        agreed, answer = probe.handshake("PLAIN"), probe.answered(api_key, version, **fields)
        for part in (answer, *(answer.get("responses") or ())):
            part.pop("error_message", None)
        return [agreed, answer, probe.groups()]

    return row


def versions_first(version: int) -> Callable[[SaslProbe], Any]:
    return lambda probe: [probe.versions(version), *log_in(probe), probe.groups()]


def bare_after_session(probe: SaslProbe) -> list[Any]:
    logged_in = [probe.handshake("PLAIN", 0), probe.frame(plain())]
    time.sleep(SESSION_MS / 1000 + 0.5)
    return [*logged_in, probe.groups()]


def without_end(probe: SaslProbe) -> list[Any]:
    """SCRAM sessions have no end."""
    return [scram_login("alice", USERS["alice"])(probe), probe.handshake("SCRAM-SHA-256"), probe.groups()]


def struct_of(api_key: ApiKey, struct_name: str, **fields: Any) -> Any:
    return getattr(codec.request(api_key), struct_name)(**fields)


INTERRUPTING: Mapping[str, tuple[ApiKey, int, dict[str, Any]]] = {
    "ApiVersions v0": (ApiKey.API_VERSIONS, 0, {}),
    "ApiVersions v3": (ApiKey.API_VERSIONS, 3, {"client_software_name": "a", "client_software_version": "1"}),
    "SaslHandshake": (ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}),
    "ListGroups v0": (ApiKey.LIST_GROUPS, 0, {}),
    "ListGroups v4": (ApiKey.LIST_GROUPS, 4, {}),
    "Metadata of all": (ApiKey.METADATA, 9, {"topics": None}),
    "Metadata of two": (
        ApiKey.METADATA, 8,
        {"topics": [struct_of(ApiKey.METADATA, "MetadataRequestTopic", name=name) for name in ("a", "b")]},
    ),
    "FindCoordinator": (ApiKey.FIND_COORDINATOR, 2, {"key": "g"}),
    "Heartbeat": (ApiKey.HEARTBEAT, 3, {"group_id": "g", "member_id": "m"}),
    "DescribeCluster": (ApiKey.DESCRIBE_CLUSTER, 0, {}),
    "DescribeAcls": (
        ApiKey.DESCRIBE_ACLS, 2,
        {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
    ),
    "InitProducerId": (ApiKey.INIT_PRODUCER_ID, 4, {}),
    "EndTxn": (ApiKey.END_TXN, 3, {"transactional_id": "t"}),
    "DescribeGroups": (ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g", "h"]}),
    "DeleteTopics": (ApiKey.DELETE_TOPICS, 5, {"topic_names": ["a"]}),
    "CreateTopics": (
        ApiKey.CREATE_TOPICS, 5, {"topics": [struct_of(ApiKey.CREATE_TOPICS, "CreatableTopic", name="a")]}
    ),
}  # fmt: skip

ROWS: Mapping[str, Callable[[SaslProbe], Any]] = {
    **{f"versions v{version}, then a login": versions_first(version) for version in (0, 1, 2)},
    "versions of a client without a name": lambda probe: [
        probe.named_versions(""), probe.named_versions("-"), *log_in(probe), probe.groups()
    ],
    "versions v3 of a client with a name": lambda probe: [
        probe.named_versions("a"), *log_in(probe), probe.groups()
    ],
    "unknown version of versions": lambda probe: [
        probe.unknown(ApiKey.API_VERSIONS, 99), probe.unknown(ApiKey.API_VERSIONS, 99), *log_in(probe), probe.groups()
    ],
    "versions, then an unknown version of them": lambda probe: [
        probe.versions(), probe.unknown(ApiKey.API_VERSIONS, 99)
    ],
    "unknown version of versions instead of a message": lambda probe: [
        probe.handshake("PLAIN"), probe.unknown(ApiKey.API_VERSIONS, 99), probe.groups()
    ],
    "unknown version of versions after the session": lambda probe: after_session(
        probe, 2, lambda expired: expired.unknown(ApiKey.API_VERSIONS, 99)
    ),
    "unknown version of versions while logging in again": lambda probe: [
        *log_in(probe), probe.handshake("PLAIN"), probe.unknown(ApiKey.API_VERSIONS, 99), probe.groups()
    ],
    "unknown version of the handshake": lambda probe: probe.unknown(ApiKey.SASL_HANDSHAKE, 9),
    "unknown version of authenticate": lambda probe: [
        probe.handshake("PLAIN"), probe.unknown(ApiKey.SASL_AUTHENTICATE, 9)
    ],
    "unknown version of another request": lambda probe: [
        probe.handshake("PLAIN"), probe.unknown(ApiKey.LIST_GROUPS, 99)
    ],
    "unknown API": lambda probe: probe.raw(b"\0\0\0\x0a\x03\xe7\0\0\0\0\0\x07\xff\xff"),
    "garbage": lambda probe: probe.frame(b"\xff" * 40),
    "a token of GSSAPI": lambda probe: probe.frame(b"\x60\x82" + bytes(40)),
    "an empty frame": lambda probe: probe.raw(bytes(4)),
    "a negative size": lambda probe: probe.raw(b"\xff" * 4),
    "more bytes than are allowed": lambda probe: probe.raw(b"\0\x08\0\x01"),
    "plain HTTP": lambda probe: probe.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    "TLS where none is spoken": lambda probe: probe.raw(CLIENT_HELLO),
    "half a request that interrupts": lambda probe: [
        probe.handshake("PLAIN"), probe.frame(struct.pack(">hhihi", ApiKey.METADATA, 1, 7, -1, 5)), probe.groups()
    ],
    "a session that began with a bare token": bare_after_session,
    "another request while logging in again": lambda probe: [
        *log_in(probe), probe.handshake("PLAIN"), probe.groups(), probe.groups()
    ],
    "versions while logging in again": lambda probe: [
        *log_in(probe), probe.handshake("PLAIN"), probe.versions(), probe.groups()
    ],
    "a session without an end": without_end,
    **{f"{name} instead of a message": interrupted(api_key, version, **fields)
       for name, (api_key, version, fields) in INTERRUPTING.items()},
    "versions, then a login": lambda probe: [probe.versions(3), *log_in(probe), probe.groups()],
    "versions twice": lambda probe: [probe.versions(), probe.versions()],
    "unknown versions": lambda probe: [probe.versions(), probe.handshake("PLAIN", 0)],
    "mechanism that is not enabled": lambda probe: [probe.handshake("GSSAPI"), probe.groups()],
    "mechanism in other letters": lambda probe: [probe.handshake("plain"), probe.groups()],
    "another request first": lambda probe: probe.groups(),
    "authenticate first": lambda probe: probe.authenticate(plain()),
    "handshake twice": lambda probe: [probe.handshake("PLAIN"), probe.authenticate(b""), probe.groups()],
    "bare token": lambda probe: [probe.handshake("PLAIN", 0), probe.frame(plain()), probe.groups()],
    "wrong bare token": lambda probe: [probe.handshake("PLAIN", 0), probe.frame(plain(password="x"))],
    "wrong password": lambda probe: [probe.handshake("PLAIN"), probe.authenticate(plain(password="x")), probe.groups()],
    "unknown user": lambda probe: [probe.handshake("PLAIN"), probe.authenticate(b"\0nobody\0x")],
    "own authorization id": lambda probe: [probe.handshake("PLAIN"), probe.authenticate(b"alice" + plain())],
    "another authorization id": lambda probe: [probe.handshake("PLAIN"), probe.authenticate(b"bob" + plain())],
    "two parts": lambda probe: [probe.handshake("PLAIN"), probe.authenticate(b"alice\0x")],
    "no user": lambda probe: [probe.handshake("PLAIN"), probe.authenticate(b"\0\0x")],
    "no password": lambda probe: [probe.handshake("PLAIN"), probe.authenticate(b"\0alice\0")],
    "authenticate v0": lambda probe: [*log_in(probe, version=0), probe.groups()],
    "SCRAM-SHA-256": scram_login("alice", USERS["alice"]),
    "SCRAM-SHA-512": scram_login("alice", USERS["alice"], "SCRAM-SHA-512"),
    "SCRAM with a wrong password": scram_login("alice", "x"),
    "authenticate after the login": lambda probe: [*log_in(probe), probe.authenticate(plain()), probe.groups()],
    "again, twice in a second": again,
    "again, a second later": lambda probe: again(probe, after_s=1.2)[:-1],
    "again as another user": lambda probe: [*log_in(probe), *log_in(probe, "bob"), probe.groups()],
    "again with a wrong password": lambda probe: [
        *log_in(probe), probe.handshake("PLAIN"), probe.authenticate(plain(password="x"))
    ],
    "again with another mechanism": lambda probe: [
        *log_in(probe), probe.handshake("SCRAM-SHA-256"), probe.authenticate(b"n,,n=alice,r=x"), probe.groups()
    ],
    "after the session": lambda probe: after_session(probe, 2, SaslProbe.groups),
    "after the session of an old client": lambda probe: after_session(probe, 0, SaslProbe.groups),
    "login after the session": lambda probe: after_session(probe, 2, log_in),
    "unsecured token": with_token(unsecured),
    "own id with a token": with_token(unsecured, "a=alice"),
    "another id with a token": with_token(unsecured, "a=bob"),
    "expired token": with_token(lambda: unsecured(exp=1)),
    "token without an end": with_token(lambda: unsecured(exp=None)),
    "token of nobody": with_token(lambda: unsecured(sub=None)),
    "token of tomorrow": with_token(lambda: unsecured(iat=int(time.time()) + 999)),
    "token without the scope": with_token(lambda: unsecured(scope=["other"])),
    "token that is none": with_token(lambda: "abc"),
    "message that is none": lambda probe: [probe.handshake("OAUTHBEARER"), probe.authenticate(b"n,,")],
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_login_goes_as_at_apache_kafka(pair: SaslPair, name: str) -> None:
    seen = {}
    for broker in (KAFKA, OURS):
        with SaslProbe(pair.ports[broker]["SASL"]) as probe:
            seen[broker] = ROWS[name](probe)
    assert seen[OURS] == seen[KAFKA]


PLAINTEXT_ROWS: Mapping[str, Callable[[SaslProbe], Any]] = {
    "handshake v0": lambda probe: [probe.handshake("PLAIN", 0), probe.groups()],
    "handshake v1": lambda probe: [probe.handshake("PLAIN"), probe.groups()],
    "authenticate": lambda probe: [probe.authenticate(plain()), probe.groups()],
    "versions twice": lambda probe: [probe.versions(), probe.versions(3)],
}


@pytest.mark.parametrize("name", PLAINTEXT_ROWS)
def test_a_listener_without_logins_answers_as_apache_kafka(pair: SaslPair, name: str) -> None:
    seen = {}
    for broker in (KAFKA, OURS):
        with SaslProbe(pair.ports[broker]["PLAINTEXT"]) as probe:
            seen[broker] = PLAINTEXT_ROWS[name](probe)
    assert seen[OURS] == seen[KAFKA]


def test_an_unknown_user_of_scram_fails_at_the_last_step_only_here(pair: SaslPair) -> None:
    """The error texts are the same; Kafka already shows at the first step which users exist."""
    ends = []
    for broker in (KAFKA, OURS):
        with SaslProbe(pair.ports[broker]["SASL"]) as probe:
            ends.append(scram_login("nobody", "x")(probe))
    assert ends[0] == ends[1] and ends[0][0] == 58


def test_a_mechanism_that_is_not_enabled_is_told_again_only_here(pair: SaslPair) -> None:
    """Kafka closes the connection without a response when a client logs in again with such a mechanism."""
    ends = []
    for broker in (KAFKA, OURS):
        with SaslProbe(pair.ports[broker]["SASL"]) as probe:
            log_in(probe)
            ends.append(probe.handshake("GSSAPI"))
    assert ends[0] == CLOSED and ends[1][0] == 33


SIGNED: Mapping[str, dict[str, Any]] = {
    "good": {},
    "several audiences": {"aud": ["x", "kafka"]},
    "a fraction of a second": {"exp": time.time() + 3599.7},
    "expired": {"exp": 1},
    "another audience": {"aud": "other"},
    "no audience": {"aud": None},
    "another issuer": {"iss": "https://login.example/"},
    "no subject": {"sub": None},
    "no time of issue": {"iat": None},
    "not before": {"nbf": 2**32},
    "no scope": {"scope": None},
}


@pytest.mark.parametrize("name", SIGNED)
def test_a_signed_token_is_judged_as_at_apache_kafka(pair: SaslPair, name: str) -> None:
    now_s = int(time.time())
    claims = {"sub": "svc", "iat": now_s, "exp": now_s + 3600, "aud": "kafka", "iss": "https://login.example",
              "scope": ["kafka"], **SIGNED[name]}  # fmt: skip
    token = jwt.encode(
        {"alg": "RS256", "kid": "k1"}, {key: value for key, value in claims.items() if value is not None}, pair.signer
    )
    forged = token[:-8] + "AAAAAAAA"
    seen = {}
    for broker in (KAFKA, OURS):
        answers = []
        for each in (token, forged):
            with SaslProbe(pair.ports[broker]["SIGNED"]) as probe:
                answers.append(with_token(lambda each=each: each)(probe))  # type: ignore[misc]
        seen[broker] = answers
    assert seen[OURS] == seen[KAFKA]
    assert (seen[OURS][0][0][2] == b"") == (name in ("good", "several audiences", "a fraction of a second", "no scope"))


def tokens(pair: SaslPair, broker: int, *arguments: str, file: Path | None = None) -> str:
    """The output of kafka-delegation-tokens."""
    config = str(file or pair.client_file("alice"))
    return java.run_tool(
        "3.9.1", _TOKENS, ["--bootstrap-server", pair.bootstrap(broker), "--command-config", config, *arguments]
    ).text


def made(said: str) -> tuple[str, str]:
    """Id and HMAC of the first token."""
    found = re.search(r"^(?P<id>[\w-]{22})\s+(?P<hmac>[\w+/]{80,}=*)", said, re.MULTILINE)
    assert found is not None, said
    return found["id"], found["hmac"]


def lets_in(pair: SaslPair, broker: int, token_id: str, hmac: str) -> Any:
    mechanism = "SCRAM-SHA-512"
    with SaslProbe(pair.ports[broker]["SASL"]) as probe:
        return probe.exchange(mechanism, scram.scram_client(mechanism, token_id, hmac, "abc", is_token=True))[0] == 0


@pytest.mark.parametrize("way", ["zookeeper", "brokers"])
def test_a_user_that_kafkas_tool_makes_can_log_in_at_both(pair: SaslPair, way: str) -> None:
    """The tool works through ZooKeeper and through the brokers. A new password invalidates the old one, and a removal
    invalidates both.
    """
    at_brokers = ["--bootstrap-server", pair.bootstrap(OURS), "--command-config", str(pair.client_file("alice"))]
    at = ["--zookeeper", pair.zookeeper] if way == "zookeeper" else at_brokers
    user = f"user-{way}"

    def change(*what: str) -> None:
        java.run_tool("3.9.1", _CONFIGS, [*at, "--alter", "--entity-type", "users", "--entity-name", user, *what])

    def known_with(password: str) -> list[bool]:
        return [scram_lets_in(pair, broker, user, password) for broker in (KAFKA, OURS)]

    change("--add-config", "SCRAM-SHA-256=[password=first]")
    wait_until(lambda: known_with("first") == [True, True], _KNOWN_WITHIN_S, "the user")
    change("--add-config", "SCRAM-SHA-256=[password=second]")
    wait_until(lambda: known_with("second") == [True, True], _KNOWN_WITHIN_S, "the new password")
    assert known_with("first") == [False, False]
    change("--delete-config", "SCRAM-SHA-256")
    wait_until(lambda: known_with("second") == [False, False], _KNOWN_WITHIN_S, "the removal")


def scram_lets_in(pair: SaslPair, broker: int, user: str, password: str) -> bool:
    with SaslProbe(pair.ports[broker]["SASL"]) as probe:
        return bool(scram_login(user, password)(probe)[0] == 0)


@pytest.mark.parametrize("maker", [KAFKA, OURS], ids=["made by Kafka", "made by ours"])
def test_a_delegation_token_of_one_broker_is_good_at_the_other(pair: SaslPair, maker: int) -> None:
    """Kafka's tools create, show, renew, use and expire the token."""
    other = OURS if maker == KAFKA else KAFKA
    create = ("--create", "--max-life-time-period", "-1")
    describe = ("--describe", "--owner-principal", "User:alice")
    token_id, hmac = made(tokens(pair, maker, *create, "--renewer-principal", "User:bob"))
    for broker in (maker, other):
        wait_until(lambda broker=broker: lets_in(pair, broker, token_id, hmac), _KNOWN_WITHIN_S, "a token")  # type: ignore[misc]
        assert token_id in tokens(pair, broker, *describe, file=pair.client_file("bob"))
        by_token = str(pair.token_file(token_id, hmac))
        java.run_tool(
            "3.9.1", _TOPICS, ["--bootstrap-server", pair.bootstrap(broker), "--list", "--command-config", by_token]
        )
    assert "Completed renew operation" in tokens(pair, other, "--renew", "--renew-time-period", "-1", "--hmac", hmac)
    refused = pytest.raises(java.JavaFailed, match="Delegation Token requests are not allowed")
    with refused:
        tokens(pair, OURS, *create, file=pair.token_file(token_id, hmac))
    assert "Completed expire operation" in tokens(pair, other, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    for broker in (maker, other):
        wait_until(lambda broker=broker: not lets_in(pair, broker, token_id, hmac), _KNOWN_WITHIN_S, "its end")  # type: ignore[misc]
