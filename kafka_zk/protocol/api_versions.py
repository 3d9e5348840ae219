"""The one answer that must be right for a version that nobody knows (KIP-511).

A client asks ApiVersions in its newest version. If the broker does not know that, it answers error 35 with a body of
version 0 that says which versions of ApiVersions it has, and the client asks again.
"""

import struct

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

_BODY = struct.Struct(">ihihhh")


def unsupported_version_response(correlation_id: int, versions: tuple[int, int]) -> bytes:
    """Header and body. ``versions``: lowest and highest version of ApiVersions that the broker knows."""
    return _BODY.pack(correlation_id, ErrorCode.UNSUPPORTED_VERSION, 1, ApiKey.API_VERSIONS, *versions)
