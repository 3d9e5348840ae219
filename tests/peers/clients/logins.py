"""Foreign clients that log in: each writes one record to a secured cluster and reads it back.

A login that a broker refuses ends in ClientFailed with the client's own words.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import aiokafka.errors
import aiokafka.helpers
import confluent_kafka
import kafka
import kafka.errors
import kafka.net.sasl.oauth

from kafka_zk.security.unsecured_jws import encode
from tests.peers import apache_kafka, foreign_programs
from tests.peers.clients.base import TIMEOUT_S, ClientFailed
from tests.peers.clients.java_clients import JavaDriver
from tests.peers.clients.line_process import LineProcess

#: Long enough for a new connection on a busy machine; a refusal is there within a second.
_FOUND_WITHIN_S = 30


@dataclass(frozen=True)
class Login:
    """A user, the cluster, and the way to log in.

    ``mechanism``: of SASL, empty for mutual TLS. ``claim``: the claim of an unsecured token that names the user.
    ``is_token``: user and password are the id and HMAC of a delegation token. ``authority``, ``certificate``: PEM
    files, the second with its key, or empty. ``java``: Kafka's own keys for the same. ``patience_s``: the time for
    which a refused client retries.
    """

    bootstrap: str
    mechanism: str
    user: str
    password: str
    claim: str
    is_token: bool
    authority: str
    certificate: str
    java: Mapping[str, str]
    patience_s: int = 30

    @property
    def bearer(self) -> str:
        """The token of OAUTHBEARER."""
        now_s = int(time.time())
        return encode({"alg": "none"}, {self.claim: self.user, "iat": now_s - 10, "exp": now_s + 3600})

    def librdkafka(self) -> dict[str, Any]:
        """The configuration of librdkafka."""
        keys = {"bootstrap.servers": self.bootstrap, "ssl.ca.location": self.authority}
        if self.certificate:
            keys |= {"ssl.key.location": self.certificate, "ssl.certificate.location": self.certificate}
        if not self.mechanism:
            return {**keys, "security.protocol": "SSL"}
        keys |= {"security.protocol": "SASL_SSL", "sasl.mechanisms": self.mechanism}
        if self.mechanism == "OAUTHBEARER":
            return {**keys, "enable.sasl.oauthbearer.unsecure.jwt": "true",
                    "sasl.oauthbearer.config": f"principal={self.user} principalClaimName={self.claim}"}  # fmt: skip
        return {**keys, "sasl.username": self.user, "sasl.password": self.password}

    def program(self, topic: str, value: str) -> str:
        """The JSON input of a program in Go or JavaScript."""
        given = {"bootstrap": self.bootstrap, "topic": topic, "value": value, "mechanism": self.mechanism,
                 "user": self.user, "password": self.password, "isToken": self.is_token, "bearer": self.bearer,
                 "authority": self.authority, "certificate": self.certificate}  # fmt: skip
        return json.dumps(given)


RoundTrip = Callable[[Login, str, str], None]
"""Writes a value to the only partition of a topic, and returns when it has read it. Raises: ClientFailed."""


def kcat(login: Login, topic: str, value: str) -> None:
    keys = [word for key, text in login.librdkafka().items() for word in ("-X", f"{key}={text}")]
    command = ["kcat", *keys, "-t", topic]
    _run([*command, "-P"], value)
    read = _run([*command, "-C", "-o", "beginning", "-e"])
    _check(value in read.splitlines(), "the value is not there")


def confluent(login: Login, topic: str, value: str) -> None:
    errors: list[str] = []
    keys = {**login.librdkafka(), "error_cb": lambda error: errors.append(f"{error.name()}: {error.str()}")}
    if login.mechanism == "OAUTHBEARER":
        del keys["enable.sasl.oauthbearer.unsecure.jwt"], keys["sasl.oauthbearer.config"]
        keys["oauth_cb"] = lambda _: (login.bearer, time.time() + 3600)
    producer = confluent_kafka.Producer(keys)
    producer.produce(topic, value.encode(), partition=0)
    end_s = time.monotonic() + _FOUND_WITHIN_S
    while producer.flush(0.1) and not errors and time.monotonic() < end_s:
        pass
    _check(not errors, " ".join(errors))
    consumer = confluent_kafka.Consumer({**keys, "group.id": value})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
        values = (message.value() for message in iter(lambda: consumer.poll(_FOUND_WITHIN_S), None))
        _check(value.encode() in values, "the value is not there")
    finally:
        consumer.close()


class _Bearer(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, login: Login) -> None:
        self._token = login.bearer

    def token(self) -> str:
        return self._token


class _AsyncBearer(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, login: Login) -> None:
        self._token = login.bearer

    async def token(self) -> str:
        return self._token


def _of_python(login: Login) -> dict[str, Any]:
    """The common configuration of kafka-python and aiokafka."""
    keys = {"bootstrap_servers": login.bootstrap, "request_timeout_ms": 1000 * _FOUND_WITHIN_S}
    if not login.mechanism:
        return {**keys, "security_protocol": "SSL"}
    keys |= {"security_protocol": "SASL_SSL", "sasl_mechanism": login.mechanism}
    if login.mechanism == "OAUTHBEARER":
        return keys
    return {**keys, "sasl_plain_username": login.user, "sasl_plain_password": login.password}


@contextlib.contextmanager
def _telling(client: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn an error of a client into ClientFailed with the client's log, because only the log has the reason."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    said: list[str] = []
    logger, handler = logging.getLogger(client), Handler()
    logger.addHandler(handler)
    try:
        yield
    except errors as error:
        raise ClientFailed(f"{error!r} {said}") from error
    finally:
        logger.removeHandler(handler)


def kafka_python(login: Login, topic: str, value: str) -> None:
    keys = {**_of_python(login), "ssl_cafile": login.authority, "bootstrap_timeout_ms": 1000 * login.patience_s}
    if login.certificate:
        keys |= {"ssl_certfile": login.certificate, "ssl_keyfile": login.certificate}
    if login.mechanism == "OAUTHBEARER":
        keys["sasl_oauth_token_provider"] = _Bearer(login)
    with _telling("kafka", kafka.errors.KafkaError):
        with contextlib.closing(kafka.KafkaProducer(**keys)) as producer:
            producer.send(topic, value.encode(), partition=0).get(_FOUND_WITHIN_S)
        with contextlib.closing(kafka.KafkaConsumer(**keys, consumer_timeout_ms=10_000)) as consumer:
            partition = kafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            _check(value.encode() in (message.value for message in consumer), "the value is not there")


def async_kafka(login: Login, topic: str, value: str) -> None:
    with _telling("aiokafka", aiokafka.errors.KafkaError):
        asyncio.run(_async_kafka(login, topic, value))


async def _async_kafka(login: Login, topic: str, value: str) -> None:
    own = {"certfile": login.certificate} if login.certificate else {}
    keys = {**_of_python(login), "ssl_context": aiokafka.helpers.create_ssl_context(cafile=login.authority, **own)}
    if login.mechanism == "OAUTHBEARER":
        keys["sasl_oauth_token_provider"] = _AsyncBearer(login)
    producer = aiokafka.AIOKafkaProducer(**keys)
    consumer = aiokafka.AIOKafkaConsumer(**keys)
    try:
        await producer.start()
        await producer.send_and_wait(topic, value.encode(), partition=0)
        await consumer.start()
        partition = aiokafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        async with asyncio.timeout(_FOUND_WITHIN_S):
            while (await consumer.getone()).value != value.encode():
                pass
    finally:
        await producer.stop()
        await consumer.stop()


def of_go(client: str) -> RoundTrip:
    """``client``: franz-go or kafka-go."""

    def round_trip(login: Login, topic: str, value: str) -> None:
        _run([str(foreign_programs.go_program("go_logins")), client], login.program(topic, value))

    return round_trip


def kafkajs(login: Login, topic: str, value: str) -> None:
    _run(["node", str(foreign_programs.node_folder("kafkajs") / "login.js")], login.program(topic, value))


def of_java(driver: JavaDriver) -> RoundTrip:
    """KafkaProducer and KafkaConsumer of the driver's version."""

    def round_trip(login: Login, topic: str, value: str) -> None:
        data = base64.b64encode(value.encode()).decode()
        record: dict[str, Any] = {"partition": 0, "timestamp_ms": None, "key": None, "value": data, "headers": []}
        given = {"topic": topic, "config": {**login.java, "auto.offset.reset": "earliest", "max.block.ms": "20000"}}
        made = driver.result("produce", login.bootstrap, records=[record], **given)
        answer = driver.result("consume", login.bootstrap, partition=0, offset=made["offsets"][0], count=1,
                               timeout_ms=1000 * _FOUND_WITHIN_S, **given)  # fmt: skip
        _check([each["value"] for each in answer["records"]] == [data], "the value is not there")

    return round_trip


class KafkasTools:
    """Kafka's command-line tools of one version, in one JVM: they create a topic, write to it and read it.

    ``folder``: for the files that the tools take.
    """

    def __init__(self, version: str, folder: Path) -> None:
        self._process = LineProcess(version, "ToolRunner")
        self._folder = folder

    def close(self) -> None:
        self._process.close()

    def round_trip(self, login: Login, topic: str, value: str) -> None:
        """The round trip uses a topic of its own beside ``topic``."""
        own = f"{topic}-{value}"
        config, payload = self._folder / f"{value}.properties", self._folder / f"{value}.payload"
        apache_kafka.write_properties(config, login.java)
        payload.write_text(f"{value}\n")
        at, of = ("--bootstrap-server", login.bootstrap), ("--topic", own)
        self._run("TopicCommand", *at, "--command-config", str(config), "--create", *of)
        self._run("ProducerPerformance", *of, "--num-records", "1", "--throughput", "-1",
                  "--payload-file", str(payload), "--producer.config", str(config),
                  "--producer-props", f"bootstrap.servers={login.bootstrap}")  # fmt: skip
        read = self._run("consumer.ConsoleConsumer", *at, "--consumer.config", str(config), *of, "--from-beginning",
                         "--max-messages", "1", "--timeout-ms", "30000")  # fmt: skip
        _check(value in read.splitlines(), f"the value is not there: {read}")

    def _run(self, tool: str, *arguments: str) -> str:
        request = {"main": f"org.apache.kafka.tools.{tool}", "arguments": arguments}
        answer = json.loads(self._process.ask([json.dumps(request)]))
        said = str(answer["stdout"] + answer["stderr"])
        _check(answer["code"] == 0, said)
        return said


def _run(command: list[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False)
    _check(done.returncode == 0, done.stderr)
    return done.stdout


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ClientFailed(otherwise)
