"""I: what a broker remembers of its clients has a ceiling, whatever they call themselves."""

import struct

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import request_header
from tests.attack import payloads
from tests.attack.siege import Siege

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

_GENEROUS = {"producer_byte_rate": 1e15, "request_percentage": 1e9}
_AT_ONCE = 500


def _alteration(*, remove: bool) -> bytes:
    request = codec.request(ApiKey.ALTER_CLIENT_QUOTAS)
    entry = request.EntryData
    wanted = entry(
        entity=[entry.EntityData(entity_type="client-id", entity_name=None)],
        ops=[entry.OpData(key=key, value=value, remove=remove) for key, value in _GENEROUS.items()],
    )
    body = bytes(codec.encode_body(request(entries=[wanted], validate_only=False), ApiKey.ALTER_CLIENT_QUOTAS, 0))
    return payloads.frame(ApiKey.ALTER_CLIENT_QUOTAS, 0, body)


def _heartbeat(client_id: str) -> bytes:
    message = codec.request(ApiKey.HEARTBEAT)(group_id="none", generation_id=1, member_id="")
    body = bytes(codec.encode_body(message, ApiKey.HEARTBEAT, 0))
    frame = request_header(ApiKey.HEARTBEAT, 0, 1, client_id) + body
    return struct.pack(">i", len(frame)) + frame


def test_client_ids_without_end(siege: Siege) -> None:
    """Every client id has a quota, so each is remembered: 100,000 short ones, and 2,000 of 20 KB."""

    def attack() -> None:
        connection = siege.victim.connect()
        connection.ask(_alteration(remove=False))
        for first in range(0, 100_000, _AT_ONCE):
            connection.send(b"".join(_heartbeat(f"client {first + number}") for number in range(_AT_ONCE)))
            for _ in range(_AT_ONCE):
                connection.answer()
        for number in range(2_000):
            connection.ask(_heartbeat(f"{number:05}" * 4_000))
        connection.ask(_alteration(remove=True))
        connection.close()

    siege("I 102,000 client ids with quotas", attack, deadline_s=240)
