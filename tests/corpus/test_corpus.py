"""Sends real clients' requests, and damaged copies, to a broker with the native module and to one without it."""

import json
import os
import struct
import subprocess
import sys

import pytest

from kafka_zk.native.loading import NEVER, REQUIRE, VARIABLE, Native
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import request_header
from tests.corpus import requests
from tests.corpus.__main__ import only_named
from tests.corpus.replay import Played
from tests.corpus.requests import MOST_BYTES, OF_ONE_KIND, Corpus, Recorded, Topic, header_of, select

SEEDS = (1, 2)
CLIENTS = {
    "aiokafka", "app", "connect", "console", "consumer", "js", "kafka", "kgo", "old", "producer", "rdkafka", "sarama",
}  # fmt: skip
"""First words of the client ids of Kafka's clients (new and old), tools, Streams and Connect, and of other clients."""
AT_LEAST = {"read_produce": 50, "write_produce": 50, "check_records": 50, "plain_commit": 10}


@pytest.mark.integration
@pytest.mark.parametrize("seed", SEEDS)
def test_both_implementations_answer_real_requests_alike(native: Native, seed: int) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.corpus.replay", str(seed)],
            env={**os.environ, VARIABLE: choice},
            stdout=subprocess.PIPE,
            text=True,
        )
        for choice in (NEVER, REQUIRE)
    ]
    python, with_native = [Played(**json.loads(process.communicate()[0])) for process in processes]
    assert python._replace(handled={}) == with_native._replace(handled={})
    assert python.handled == {}
    assert {name: count for name, count in AT_LEAST.items() if with_native.handled[name] < count} == {}
    assert python.failures == []
    assert sum(not response.startswith("0 bytes") for response in python.responses) > len(python.responses) // 2


def test_requests_of_all_clients_are_recorded() -> None:
    headers = [header_of(request.frame)[0] for request in requests.read().requests]
    clients = {(header.client_id or "").split("-")[0] for header in headers}
    assert clients >= CLIENTS
    produce_versions = {header.api_version for header in headers if header.api_key == ApiKey.PRODUCE}
    assert produce_versions >= {0, 1, 2, 7, 9, 11}, "old clients, and today's"


def frame(client: str, api_key: ApiKey = ApiKey.METADATA, body: bytes = b"") -> bytes:
    return request_header(api_key, 1, 7, client) + body


def test_the_first_requests_of_each_kind_are_selected() -> None:
    """Numbers and hexadecimal parts of a client id do not matter."""
    recorded = [Recorded(number, frame(f"client-{number}")) for number in range(OF_ONE_KIND + 1)]
    other = Recorded(7, frame("other"))
    assert list(select([*recorded, other])) == [*recorded[:OF_ONE_KIND], other]


def test_requests_between_brokers_and_long_ones_are_not_selected() -> None:
    inside = Recorded(1, frame("broker", ApiKey.STOP_REPLICA))
    long = Recorded(1, frame("client", body=bytes(MOST_BYTES)))
    bare = Recorded(1, struct.pack(">h", 1))
    assert list(select([inside, long, bare])) == []


def test_only_topics_that_a_request_names_are_kept() -> None:
    topics = {name: Topic(name.encode() * 16, 1) for name in "abc"}
    corpus = Corpus(topics, [Recorded(1, b"-a-"), Recorded(1, b"-" + b"b" * 16 + b"-")])
    assert set(only_named(corpus).topics) == {"a", "b"}
