"""PRODUCER_FENCED for clients that do not know it (KIP-588)."""

from kafka_zk.protocol.errors import ErrorCode

_FENCED = ErrorCode.PRODUCER_FENCED


def known_since(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """The code as a client of this version knows it: before ``since`` a fenced producer is told of its epoch."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is _FENCED and version < since else code
