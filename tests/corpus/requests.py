"""The corpus: requests of real clients, in the order and on the connections on which they came.

``requests.jsonl.gz`` has a JSON document a line: first ``{"topics": {name: [id, partition count]}}``, then for each
request its connection and its frame, in base64.
"""

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_zk.network.connection_input import BETWEEN_BROKERS
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.produce import read_produce_request
from kafka_zk.protocol.request import RequestHeader, parse_request_header

FILE = Path(__file__).with_name("requests.jsonl.gz")
OF_ONE_KIND = 2
MOST_BYTES = 17_000
"""Maximum size of a frame: a default batch of Kafka's clients, and a little more."""

_INSIDE_THE_CLUSTER = {*BETWEEN_BROKERS, ApiKey.WRITE_TXN_MARKERS}
_MAGIC_POSITION, _MAGIC_2_ATTRIBUTES, _OLD_ATTRIBUTES, _CODEC_MASK = 16, 22, 17, 7


class Recorded(NamedTuple):
    """One request; ``connection`` is unique in a corpus."""

    connection: int
    frame: bytes


class Topic(NamedTuple):
    """``topic_id``: 16 bytes."""

    topic_id: bytes
    partitions: int


class Corpus(NamedTuple):
    """Requests, and the topics that they name."""

    topics: dict[str, Topic]
    requests: list[Recorded]


def header_of(frame: bytes) -> tuple[RequestHeader, memoryview]:
    """The header and the body. Raises: ProtocolError."""
    header, position = parse_request_header(memoryview(frame))
    return header, memoryview(frame)[position:]


def select(recorded: Iterable[Recorded]) -> Iterator[Recorded]:
    """The first requests of each kind: of a client, an API and its version, and of Produce a codec and a magic."""
    found: Counter[tuple[object, ...]] = Counter()
    for request in recorded:
        kind = _kind(request.frame)
        if kind is None or len(request.frame) > MOST_BYTES or found[kind] >= OF_ONE_KIND:
            continue
        found[kind] += 1
        yield request


def _kind(frame: bytes) -> tuple[object, ...] | None:
    """None if the frame is not a request of a client."""
    try:
        header, body = header_of(frame)
    except ProtocolError:  # a bare SASL message
        return None
    if header.api_key in _INSIDE_THE_CLUSTER:
        return None
    client = re.sub(r"[0-9a-f]{4,}|\d+", "", header.client_id or "")
    first = _first_batch(header.api_version, body) if header.api_key == ApiKey.PRODUCE else b""
    return client, header.api_key, header.api_version, first


def _first_batch(version: int, body: memoryview) -> tuple[int, int]:
    """The magic and the codec of the first batch of a Produce request."""
    topics = read_produce_request(version, body).topics
    records = topics[0][1][0][1] if topics else None
    if records is None or len(records) <= _MAGIC_2_ATTRIBUTES:
        return -1, -1
    magic = records[_MAGIC_POSITION]
    return magic, records[_MAGIC_2_ATTRIBUTES if magic == 2 else _OLD_ATTRIBUTES] & _CODEC_MASK


def write(corpus: Corpus) -> None:
    topics = {name: [base64.b64encode(topic_id).decode(), count] for name, (topic_id, count) in corpus.topics.items()}
    requests = [[connection, base64.b64encode(frame).decode()] for connection, frame in corpus.requests]
    lines: list[object] = [{"topics": topics}, *requests]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def read() -> Corpus:
    head, *lines = map(json.loads, gzip.decompress(FILE.read_bytes()).splitlines())
    topics = {name: Topic(base64.b64decode(topic_id), count) for name, (topic_id, count) in head["topics"].items()}
    return Corpus(topics, [Recorded(connection, base64.b64decode(frame)) for connection, frame in lines])
