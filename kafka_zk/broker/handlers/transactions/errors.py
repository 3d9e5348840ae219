"""Replaces PRODUCER_FENCED for clients that do not know it (KIP-588)."""

from kafka_zk.protocol.errors import ErrorCode

_FENCED = ErrorCode.PRODUCER_FENCED


def known_since(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """The code for a client of this version: before ``since``, PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is _FENCED and version < since else code
