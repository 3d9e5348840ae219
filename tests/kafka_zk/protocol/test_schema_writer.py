"""The values that a writer refuses. test_codec.py shows that its bytes are Kafka's."""

import struct
from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey

HEARTBEAT = codec.request(ApiKey.HEARTBEAT)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("group_id", None, ValueError),
        ("group_id", "g" * 32768, ValueError),
        ("generation_id", 2**31, struct.error),
        ("generation_id", None, struct.error),
    ],
)
def test_a_value_that_its_field_cannot_hold_is_an_error(field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        codec.encode_body(HEARTBEAT(member_id="m", **{field: value}), ApiKey.HEARTBEAT, 3)


def test_a_tagged_field_with_its_default_is_not_written() -> None:
    response = codec.response(ApiKey.API_VERSIONS)

    def size_bytes(**fields: Any) -> int:
        return len(codec.encode_body(response(api_keys=[], **fields), ApiKey.API_VERSIONS, 3))

    assert size_bytes(supported_features=[], finalized_features_epoch=-1) == size_bytes()
    assert size_bytes(finalized_features_epoch=7) > size_bytes()
