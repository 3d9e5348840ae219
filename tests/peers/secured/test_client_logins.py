"""Foreign clients at a secured broker of ours: each with each way to log in, over TLS.

Each writes a record and reads it back. With a wrong password, a token without a subject or no certificate, it reports
the refusal.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.peers import foreign_programs, jars, java
from tests.peers.clients import logins
from tests.peers.clients.base import ClientFailed
from tests.peers.clients.java_clients import JavaDriver
from tests.peers.clients.logins import Login, RoundTrip
from tests.peers.secured_kafka import MECHANISMS, MUTUAL_TLS, PASSWORD, USER, SecuredKafka, login_module, secured_kafka
from tests.peers.targets import kafka_zk_command

pytestmark = pytest.mark.peers

DELEGATION_TOKEN = "delegation token"
_TOPIC = "logins"
_TIMEOUT_S = 90


class Client(NamedTuple):
    """``ways``: the client's ways to log in. The rest: its errors when a password, a token or no certificate is
    refused.
    """

    ways: tuple[str, ...]
    password: str
    bearer: str
    certificate: str


_ALL = (*MECHANISMS, DELEGATION_TOKEN, MUTUAL_TLS)
_NO_TOKENS = (*MECHANISMS, MUTUAL_TLS)
_NO_BEARER = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", MUTUAL_TLS)
_INVALID = r'SaslAuthenticationException: {"status":"invalid_token"}'
_HANDSHAKE = "SslAuthenticationException|SSL handshake failed|Failed to process post-handshake messages"
_JAVA = Client(_ALL, "SaslAuthenticationException.*(Authentication failed|invalid credentials)", _INVALID, _HANDSHAKE)
_REQUIRED = "(?i)certificate.required"
_LIBRDKAFKA = Client(_NO_TOKENS, "SASL authentication error|Authentication failed", "invalid_token", _REQUIRED)
CLIENTS: Mapping[str, Client] = {
    "tools-3.9.1": _JAVA._replace(password="Authentication failed", bearer='{"status":"invalid_token"}'),
    "java-3.9.1": _JAVA,
    "java-4.3.0": _JAVA,
    "kcat": _LIBRDKAFKA,
    "confluent-kafka": _LIBRDKAFKA,
    "franz-go": Client(_ALL, "SASL_AUTHENTICATION_FAILED", "unexpected data in oauth response", _REQUIRED),
    "kafka-go": Client(_NO_BEARER, "SASL Authentication failed", "", _REQUIRED),
    # the client drops a response that arrives together with the end of the connection
    "kafka-python": Client(_NO_TOKENS, "AuthenticationFailed|socket disconnected", "socket disconnected", _REQUIRED),
    "aiokafka": Client(_NO_TOKENS, "AuthenticationFailed", "Unable to update metadata", "closed"),
    # the client treats a refused token as a success, and continues, as aiokafka does
    "kafkajs": Client(_NO_TOKENS, "KafkaJSSASLAuthenticationError", "given the current SASL state", _REQUIRED),
}
CELLS = [(name, way) for name, client in CLIENTS.items() for way in client.ways]


@pytest.fixture(scope="module")
def kafka(peer_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    # kafkajs logs in again ten seconds before a session ends; if the session is shorter, at every request
    with secured_kafka(tmp_path_factory.mktemp("secured"), kafka_zk_command, session_ms=3_600_000) as running:
        file = str(running.client_file("PLAIN"))
        create = ["topics", "create", "--topic", _TOPIC, "--bootstrap-server", running.bootstrap("PLAIN")]
        subprocess.run(
            [sys.executable, "-m", "kafka_zk", *create, "--command-config", file], check=True, timeout=_TIMEOUT_S
        )
        yield running


@pytest.fixture(scope="module")
def delegation_token(kafka: SecuredKafka) -> tuple[str, str]:
    """Id and HMAC of one of the user's delegation tokens."""
    at = ["--bootstrap-server", kafka.bootstrap("PLAIN"), "--command-config", str(kafka.client_file("PLAIN"))]
    said = java.run_tool(
        jars.ORACLE_VERSION, "org.apache.kafka.tools.DelegationTokenCommand",
        [*at, "--create", "--max-life-time-period", "-1"],
    ).text  # fmt: skip
    found = re.search(r"^(?P<id>[\w-]{22})\s+(?P<hmac>[\w+/]{80,}=*)", said, re.MULTILINE)
    assert found is not None, said
    return found["id"], found["hmac"]


@pytest.fixture(scope="module")
def round_trips(
    java_drivers: Mapping[str, JavaDriver], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, RoundTrip]]:
    foreign_programs.go_program("go_logins")
    tools = logins.KafkasTools(jars.ORACLE_VERSION, tmp_path_factory.mktemp("tools"))
    yield {
        "tools-3.9.1": tools.round_trip,
        "java-3.9.1": logins.of_java(java_drivers[jars.ORACLE_VERSION]),
        "java-4.3.0": logins.of_java(java_drivers[jars.NEWEST_VERSION]),
        "kcat": logins.kcat,
        "confluent-kafka": logins.confluent,
        "franz-go": logins.of_go("franz-go"),
        "kafka-go": logins.of_go("kafka-go"),
        "kafka-python": logins.kafka_python,
        "aiokafka": logins.async_kafka,
        "kafkajs": logins.kafkajs,
    }
    tools.close()


def right(kafka: SecuredKafka, way: str, token: tuple[str, str]) -> Login:
    """The login of the broker's user."""
    is_token = way == DELEGATION_TOKEN
    mechanism = "" if way == MUTUAL_TLS else "SCRAM-SHA-512" if is_token else way
    user, password = token if is_token else (USER, PASSWORD)
    authority, certificate = str(kafka.folder / "authority.pem"), "" if mechanism else str(kafka.folder / "client.pem")
    keys = kafka.client_keys(mechanism or MUTUAL_TLS)
    login = Login(kafka.bootstrap(way), mechanism, user, password, "sub", is_token, authority, certificate, keys)
    if not is_token:
        return login
    return with_module(login, login_module(mechanism, username=user, password=password, tokenauth="true"))


def wrong(login: Login) -> Login:
    """The same with a wrong password, a token without a subject, or no certificate."""
    if not login.mechanism:
        without = {key: text for key, text in login.java.items() if "keystore" not in key}
        return replace(login, certificate="", java=without)
    if login.mechanism == "OAUTHBEARER":
        claims = {"unsecuredLoginPrincipalClaimName": "name", "unsecuredLoginStringClaim_name": USER}
        return with_module(replace(login, claim="name"), login_module("OAUTHBEARER", **claims))
    more = {"tokenauth": "true"} if login.is_token else {}
    module = login_module(login.mechanism, username=login.user, password="wr0ng", **more)
    return with_module(replace(login, password="wr0ng"), module)


def with_module(login: Login, module: str) -> Login:
    return replace(login, java={**login.java, "sasl.jaas.config": module})


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "way"), CELLS)
def test_a_client_writes_and_reads_a_record_and_is_refused_without_the_secret(
    kafka: SecuredKafka, delegation_token: tuple[str, str], round_trips: Mapping[str, RoundTrip], name: str, way: str
) -> None:
    login = right(kafka, way, delegation_token)
    value = f"{name}-{way}".replace(" ", "-")
    round_trips[name](login, _TOPIC, value)
    client, failed_before = CLIENTS[name], failed_logins(kafka)
    told = {MUTUAL_TLS: client.certificate, "OAUTHBEARER": client.bearer}.get(way, client.password)
    with pytest.raises(ClientFailed, match=told):
        round_trips[name](wrong(replace(login, patience_s=2)), _TOPIC, value)
    assert way in ("OAUTHBEARER", MUTUAL_TLS) or failed_logins(kafka) > failed_before
    assert "wr0ng" not in Path(kafka.broker.output).read_text(errors="replace")


def failed_logins(kafka: SecuredKafka) -> int:
    return Path(kafka.broker.output).read_text(errors="replace").count("Failed authentication")
