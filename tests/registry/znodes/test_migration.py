"""``/migration`` as written by a 3.9.1 controller."""

import pytest

from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes.migration import decode

WAITING = (
    b'{"version":0,"kraft_metadata_offset":-1,"kraft_controller_id":-1,"kraft_metadata_epoch":-1,'
    b'"kraft_controller_epoch":-1}'
)
DUAL_WRITE = (
    b'{"version":0,"kraft_metadata_offset":131,"kraft_controller_id":3001,"kraft_metadata_epoch":1,'
    b'"kraft_controller_epoch":1}'
)


@pytest.mark.parametrize(("data", "offset"), [(WAITING, -1), (DUAL_WRITE, 131)])
def test_decode(data: bytes, offset: int) -> None:
    assert decode(data) == offset


@pytest.mark.parametrize("data", [None, b"", b"{}", b"[]", b'{"kraft_metadata_offset":9223372036854775808}'])
def test_what_is_not_understood(data: bytes | None) -> None:
    with pytest.raises(InvalidZnode):
        decode(data)
