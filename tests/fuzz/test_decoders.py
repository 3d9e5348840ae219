"""Every decoder against invalid bytes: the result is a value or a ProtocolError, and comes immediately."""

import contextlib
import gc
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.base.steps import run_to_end
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.fetch import read_fetch_response
from kafka_zk.protocol.fetch_request import read_fetch_request
from kafka_zk.protocol.frame import FrameDecoder
from kafka_zk.protocol.group_membership import (
    read_heartbeat_request,
    read_join_group_request,
    read_sync_group_request,
)
from kafka_zk.protocol.offset_commit import read_offset_commit_request
from kafka_zk.protocol.produce import read_produce_request, read_produce_response
from kafka_zk.protocol.request import parse_request_header
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.records.log_validator import validate_batch
from kafka_zk.storage.records.record_decoder import decode_records
from tests.fuzz.frames import request, spoil

pytestmark = pytest.mark.slow

INPUTS_PER_ROUND = 3000
_BY_HAND: list[tuple[ApiKey, Callable[[int, memoryview], Any]]] = [
    (ApiKey.PRODUCE, read_produce_request),
    (ApiKey.PRODUCE, read_produce_response),
    (ApiKey.FETCH, read_fetch_request),
    (ApiKey.FETCH, read_fetch_response),
    (ApiKey.OFFSET_COMMIT, read_offset_commit_request),
    (ApiKey.JOIN_GROUP, read_join_group_request),
    (ApiKey.SYNC_GROUP, lambda version, body: run_to_end(read_sync_group_request(version, body))),
    (ApiKey.HEARTBEAT, read_heartbeat_request),
]


def _garbage(rnd: random.Random) -> memoryview:
    """Random bytes, or a request of any API with changed bytes."""
    if rnd.random() < 0.3:
        return memoryview(bytearray(rnd.randbytes(rnd.choice((0, 1, 4, 20, 300)))))
    api_key, (low, high) = rnd.choice(sorted(BROKER_VERSIONS.items()))
    return memoryview(bytearray(spoil(request(rnd, api_key, rnd.randint(low, high)), rnd)))


def _decode_as_anything(rnd: random.Random, data: memoryview) -> None:
    choice = rnd.randrange(3)
    if choice == 0:
        _, position = parse_request_header(data)
        data = data[position:]
    elif choice == 1:
        data = data[rnd.randrange(20) :]
    if rnd.random() < 0.4:
        api_key, reader = rnd.choice(_BY_HAND)
        reader(rnd.randint(0, BROKER_VERSIONS[api_key][1]), data)
    else:
        api_key, (low, high) = rnd.choice(sorted(BROKER_VERSIONS.items()))
        decode = rnd.choice((codec.decode_request, codec.decode_response))
        decode(api_key, rnd.randint(low, high), data)


def test_messages_decode_or_are_protocol_errors(campaign_seed: int) -> None:
    rnd = random.Random(campaign_seed)
    for _ in range(INPUTS_PER_ROUND):
        data = _garbage(rnd)
        start = time.thread_time()
        with contextlib.suppress(ProtocolError):
            _decode_as_anything(rnd, data)
        assert time.thread_time() - start < 0.3, bytes(data[:100]).hex()


def test_streams_decode_or_are_protocol_errors(campaign_seed: int) -> None:
    rnd = random.Random(campaign_seed)
    for _ in range(300):
        decoder = FrameDecoder(100_000)
        with contextlib.suppress(ProtocolError):
            for _ in range(20):
                list(decoder.feed(bytes(_garbage(rnd))))


def test_batches_are_read_or_are_storage_errors(campaign_seed: int) -> None:
    """The input is a producer's batch, or one in a client's response, with and without a check of its CRC."""
    rnd = random.Random(campaign_seed)
    for _ in range(INPUTS_PER_ROUND // 10):
        data = bytearray(spoil(request(rnd, ApiKey.PRODUCE, 9), rnd))[rnd.randrange(60) :]
        for read in (validate_batch, lambda data: list(decode_records(data))):
            with contextlib.suppress(StorageError):
                read(data)


def test_the_densest_frames_take_time_linear_in_their_size() -> None:
    """The frames have as many objects as possible: sixteen times the bytes take sixteen times the time, plus the noise
    of a busy machine; 256 times would be quadratic. The collector is off, because its share depends on what other
    tests left behind.
    """

    def seconds(size: int) -> float:
        count = size // 18
        body = _varint(count + 1) + (bytes(16) + b"\x00\x00") * count + b"\x00\x00\x00"
        start = time.thread_time()
        with contextlib.suppress(ProtocolError):
            codec.decode_request(ApiKey.METADATA, 12, body)
        return time.thread_time() - start

    gc.disable()
    try:
        seconds(65536)
        small = max(seconds(65536) for _ in range(3))
        assert min(seconds(16 * 65536) for _ in range(3)) < 100 * max(small, 0.002)
    finally:
        gc.enable()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
