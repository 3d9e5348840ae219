"""Our commands and clients against a secured Apache Kafka, 3.9.1 and 4.3.0: each command with each way to log in.

Kafka's own tool accepts the same files, so the tests use the files that Kafka's users have.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.security.unsecured_jws import encode
from kafka_zk.spark_jobs.session import spark_session
from tests.documented import ROOT
from tests.integration.spark.sessions import stop_shared
from tests.peers import jars, java
from tests.peers.jars import NEWEST_VERSION, ORACLE_VERSION
from tests.peers.secured.secured_commands import Scene, kafka_zk, ok, rows, table
from tests.peers.secured_kafka import (
    MUTUAL_TLS,
    PASSWORD,
    SESSION_MS,
    WAYS,
    SecuredKafka,
    secured_kafka,
    secured_kraft,
)

pytestmark = pytest.mark.peers

@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture(scope="module")
def kraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kraft(tmp_path_factory.mktemp("kraft")) as running:
        yield running


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    stop_shared()
    session = spark_session("secured commands", "local[2]", {"spark.ui.enabled": "false"})
    yield session
    session.stop()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("release", [ORACLE_VERSION, NEWEST_VERSION])
def test_everything_with_every_way_to_log_in(
    request: pytest.FixtureRequest, spark: Any, release: str, way: str, tmp_path: Path
) -> None:
    kafka: SecuredKafka = request.getfixturevalue("kafka" if release == ORACLE_VERSION else "kraft")
    for _, row in rows(kafka):
        row(Scene(kafka, way, tmp_path, spark))


def test_the_documentation_shows_what_works() -> None:
    """``python -m tests.peers.secured.secured_commands`` prints it."""
    assert table() in (ROOT / "docs" / "how-to" / "security.md").read_text()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("way", WAYS)
def test_kafkas_own_tool_takes_the_same_file(kafka: SecuredKafka, way: str) -> None:
    arguments = ["--bootstrap-server", kafka.bootstrap(way), "--command-config", str(kafka.client_file(way)), "--list"]
    java.run_tool(jars.ORACLE_VERSION, "org.apache.kafka.tools.TopicCommand", arguments)


def sentences(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines on stderr, without the notice of a wait of more than a second."""
    return [line for line in done.stderr.splitlines() if not line.startswith("waiting for ")]


def failed_logins(kafka: SecuredKafka) -> int:
    return Path(kafka.broker.output).read_text(errors="replace").count("Failed authentication")


SCRAM = "SCRAM-SHA-256"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("way", "changed", "host", "told"),
    [
        (SCRAM, {"sasl_jaas_config": "LOGIN"}, None, "logging in to 127.0.0.1"),
        ("PLAIN", {"sasl_jaas_config": "LOGIN"}, None, "Invalid username or password"),
        (SCRAM, {"ssl_truststore_location": "other.pem"}, None, "not signed by an authority"),
        (MUTUAL_TLS, {"ssl_truststore_location": "other.pem", "ssl_truststore_password": ""}, None,
         "not signed by an authority"),
        (SCRAM, {}, "localhost", "is for another host"),
        (MUTUAL_TLS, {"ssl_keystore_location": "", "ssl_keystore_password": "", "ssl_keystore_type": ""}, None,
         "asks for a client certificate"),
        (MUTUAL_TLS, {"ssl_keystore_password": "wr0ng"}, None, "password"),
        (SCRAM, {"security_protocol": "SASL_PLAINTEXT"}, None, "has no effect with security.protocol"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", [("topics", "list"), ("produce", "--topic", "x"), ("groups", "list")])
def test_what_is_wrong_is_one_sentence(
    kafka: SecuredKafka, way: str, changed: dict[str, str], host: str | None, told: str, command: tuple[str, ...]
) -> None:
    meant = {name: str(kafka.folder / value) if value.endswith(".pem") else value for name, value in changed.items()}
    if meant.get("sasl_jaas_config"):
        meant["sasl_jaas_config"] = kafka.client_keys(way)["sasl.jaas.config"].replace(PASSWORD, "wr0ng")
    bootstrap = kafka.bootstrap(way)
    if host is not None:
        bootstrap = bootstrap.replace("127.0.0.1", host)
    failed_before = failed_logins(kafka)
    began_s = time.monotonic()
    file = kafka.client_file(way, **meant)
    done = kafka_zk(*command, "--bootstrap-server", bootstrap, "--command-config", str(file), stdin="line\n")
    assert done.returncode == 1
    assert told in done.stderr and len(sentences(done)) == 1
    assert failed_logins(kafka) <= failed_before + 1, "a failed login was retried"
    assert "wr0ng" not in done.stderr
    assert time.monotonic() - began_s < 20


@pytest.mark.parametrize(
    ("listener", "way"), [("PLAINTEXT", SCRAM), ("PLAINTEXT", MUTUAL_TLS), ("SSL", SCRAM)]
)
def test_the_wrong_port_is_told(kafka: SecuredKafka, listener: str, way: str) -> None:
    address = f"127.0.0.1:{kafka.ports[listener]}"
    done = kafka_zk("topics", "list", "--bootstrap-server", address, "--command-config", str(kafka.client_file(way)))
    assert done.returncode == 1 and len(sentences(done)) == 1
    assert "port" in done.stderr or "certificate" in done.stderr


@contextlib.contextmanager
def token_endpoint() -> Iterator[tuple[str, list[str]]]:
    """An OAuth provider that issues unsecured tokens: its URL, and the credentials of its requests."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.headers["Authorization"])
            claims = {"sub": "alice", "iat": time.time() - 1, "exp": time.time() + 60}
            body = json.dumps({"access_token": encode({"alg": "none"}, claims), "expires_in": 60})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token", asked
    finally:
        server.shutdown()
        server.server_close()


def test_tokens_of_an_endpoint(kafka: SecuredKafka) -> None:
    login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    with token_endpoint() as (url, asked):
        file = kafka.client_file(
            "OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=url,
            sasl_jaas_config=f'{login} clientId="me" clientSecret="{PASSWORD}";',
        )
        ok("topics", "list", "--bootstrap-server", kafka.bootstrap("OAUTHBEARER"), "--command-config", str(file))
    basic = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    assert asked == [f"Basic {basic}"], "the connections did not share one token"


def test_tokens_of_a_function(kafka: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's MSK needs such a function; the signer is a fake."""
    (tmp_path / "fake_signer.py").write_text(
        "import time\n"
        "from kafka_zk.security.unsecured_jws import encode\n\n\n"
        "def token(region):\n"
        "    claims = {'sub': region, 'iat': time.time() - 1, 'exp': time.time() + 60}\n"
        "    return encode({'alg': 'none'}, claims), claims['exp']\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    file = kafka.client_file(
        "OAUTHBEARER",
        sasl_jaas_config="",
        sasl_login_callback_handler_class="fake_signer:token",
        sasl_oauthbearer_config="eu-west-1",
    )
    ok("topics", "list", "--bootstrap-server", kafka.bootstrap("OAUTHBEARER"), "--command-config", str(file))


def test_clients_log_in_again_before_their_sessions_end(kafka: SecuredKafka) -> None:
    """The test lasts three sessions, and no record is late or lost."""
    security = kafka.client_keys("SCRAM-SHA-512")
    keys: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap("SCRAM-SHA-512"), "security": security}
    group: dict[str, Any] = {"group.id": "again", "auto.offset.reset": "earliest", "consumer.timeout.ms": 10_000}
    sent: list[bytes] = []
    received: list[bytes] = []
    with BlockingProducer(None, **keys) as producer, BlockingConsumer(["again"], **keys, **group) as consumer:
        end_s = time.monotonic() + 3 * SESSION_MS / 1000
        while time.monotonic() < end_s:
            sent.append(b"%d" % len(sent))
            producer.send("again", sent[-1]).result(10)
            received.append(next(iter(consumer)).value)
            time.sleep(0.05)
    assert received == sent

