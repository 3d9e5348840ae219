"""The response to an unknown version of ApiVersions (KIP-511).

A client sends ApiVersions in its newest version. A broker that does not support it responds with error 35 in version 0,
with its own versions of ApiVersions, and the client asks again.
"""

import struct

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

_BODY = struct.Struct(">ihihhh")


def unsupported_version_response(correlation_id: int, versions: tuple[int, int]) -> bytes:
    """``versions``: the broker's lowest and highest."""
    return _BODY.pack(correlation_id, ErrorCode.UNSUPPORTED_VERSION, 1, ApiKey.API_VERSIONS, *versions)
