"""Our commands and clients against a secured Apache Kafka 3.9.1: each command with each way to log in.

Kafka's own tool takes the same files, so that what passes here is what its users have.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
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
from tests.peers import jars, java
from tests.peers.secured_kafka import (
    MUTUAL_TLS,
    PASSWORD,
    SESSION_MS,
    WAYS,
    SecuredKafka,
    secured_kafka,
)

pytestmark = pytest.mark.peers
_TIMEOUT_S = 90
_PRODUCED = [f"line {number}" for number in range(20)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        yield running


def kafka_zk(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafka_zk", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert PASSWORD not in done.stdout + done.stderr
    return done


def ok(*arguments: str, stdin: str = "") -> str:
    done = kafka_zk(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("way", WAYS)
def test_every_command_with_every_way_to_log_in(kafka: SecuredKafka, way: str) -> None:
    topic = f"t-{way.replace(' ', '-')}"
    secured = ("--bootstrap-server", kafka.bootstrap(way), "--command-config", str(kafka.client_file(way)))
    ok("topics", "create", "--topic", topic, "--partitions", "2", *secured)
    assert topic in ok("topics", "list", *secured).split()
    assert "PartitionCount: 2" in ok("topics", "describe", "--topic", topic, *secured)
    ok("produce", "--topic", topic, *secured, stdin="\n".join(_PRODUCED) + "\n")
    count = str(len(_PRODUCED))
    read = ok("consume", "--topic", topic, "--from-beginning", "--max-messages", count, *secured)
    assert sorted(read.splitlines()) == sorted(_PRODUCED)
    group = ("--group", f"g-{topic}", "--from-beginning", "--max-messages", count)
    read = ok("consume", "--topic", topic, "--type", "broker", *group, *secured)
    assert sorted(read.splitlines()) == sorted(_PRODUCED)
    at_zookeeper = ("--zookeeper", kafka.zookeeper, "--command-config", str(kafka.client_file(way)))
    read = ok("consume", "--topic", topic, "--type", "zookeeper", *group, *at_zookeeper)
    assert sorted(read.splitlines()) == sorted(_PRODUCED)
    assert f"g-{topic}" in ok("groups", "list", *secured)
    rows = json.loads(ok("groups", "describe", "--group", f"g-{topic}", "--json", *secured))
    assert sum(row["current_offset"] for row in rows) == len(_PRODUCED) and not sum(row["lag"] for row in rows)
    ok("groups", "describe", "--group", f"g-{topic}", *at_zookeeper)
    ok("groups", "reset-offsets", "--group", f"g-{topic}", "--topic", topic, "--to-earliest", "--execute", *secured)
    assert ok("offsets", "--topic", topic, *secured)
    ok("topics", "delete", "--topic", topic, *secured)


@pytest.mark.parametrize("way", WAYS)
def test_kafkas_own_tool_takes_the_same_file(kafka: SecuredKafka, way: str) -> None:
    arguments = ["--bootstrap-server", kafka.bootstrap(way), "--command-config", str(kafka.client_file(way)), "--list"]
    java.run_tool(jars.ORACLE_VERSION, "org.apache.kafka.tools.TopicCommand", arguments)


def sentences(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What is said, without the note of a wait of more than a second."""
    return [line for line in done.stderr.splitlines() if not line.startswith("waiting for ")]


def failed_logins(kafka: SecuredKafka) -> int:
    return Path(kafka.broker.output).read_text(errors="replace").count("Failed authentication")


SCRAM = "SCRAM-SHA-256"


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
    assert failed_logins(kafka) <= failed_before + 1, "a login that failed is not tried again"
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
    """An OAuth provider that gives unsecured tokens: its URL, and who asked."""
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
    threading.Thread(target=server.serve_forever, daemon=True).start()
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
    assert asked == [f"Basic {basic}"], "one token for all connections"


def test_tokens_of_a_function(kafka: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Amazon's MSK needs it; the signer is a fake."""
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
    """Three sessions long, and no record is late or lost."""
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

