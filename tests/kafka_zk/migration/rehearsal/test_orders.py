"""A stand-in obeys every order of a controller, and says that it is in migration mode."""

import pytest

from kafka_zk.migration.rehearsal.orders import ORDERS, VERSIONS, response_to
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestHeader, response_body_position


def answer(api_key: ApiKey, version: int) -> codec.Message:
    frame = memoryview(response_to(RequestHeader(api_key, version, 5, "controller")))
    return codec.decode_response(api_key, version, frame[response_body_position(frame, api_key, version) :])


@pytest.mark.parametrize("api_key", ORDERS)
def test_success_in_every_version(api_key: ApiKey) -> None:
    lowest, highest = VERSIONS[api_key]
    assert {answer(api_key, version).error_code for version in range(lowest, highest + 1)} == {0}


def test_its_versions() -> None:
    found = answer(ApiKey.API_VERSIONS, 3)
    assert {each.api_key: each.max_version for each in found.api_keys} == {4: 7, 5: 4, 6: 8, 18: 4}
    assert found.zk_migration_ready
