"""ZooKeeper's multi-read, which kazoo lacks: many znodes in one request, since 3.6.

Older servers respond with UNIMPLEMENTED and close the connection; the session survives.
Source: MultiOperationRecord.java and FinalRequestProcessor.java of ZooKeeper 3.9 (OpCode.multiRead).
"""

from collections.abc import Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import (
    GetData,
    MultiHeader,
    int_struct,
    multiheader_struct,
    read_buffer,
    stat_struct,
)

from kafka_zk.registry.client.client import ZnodeStat
from kafka_zk.registry.client.errors import NoAuth, NoNode
from kafka_zk.registry.client.kazoo_common import registry_error

_END = bytes(multiheader_struct.pack(-1, True, -1))

Found = tuple[bytes | None, ZnodeStat]


class MultiRead:
    """The response is a list of (data, stat) or exceptions."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def serialize(self) -> bytes:
        header = bytes(MultiHeader(GetData.type, False, -1).serialize())
        return b"".join(header + bytes(GetData(path, None).serialize()) for path in self.paths) + _END

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> list[Found | Exception]:
        """The results, in the order of the paths."""
        results: list[Found | Exception] = []
        header, offset = MultiHeader.deserialize(answer, offset)
        while not header.done:
            if header.type == GetData.type:
                data, offset = read_buffer(answer, offset)
                results.append((data, ZnodeStat._make(stat_struct.unpack_from(answer, offset))))
                offset += stat_struct.size
            else:
                (code,) = int_struct.unpack_from(answer, offset)
                results.append(EXCEPTIONS[code]())
                offset += int_struct.size
            header, offset = MultiHeader.deserialize(answer, offset)
        return results


def start_multi_read(kazoo: KazooClient, paths: Sequence[str]) -> Any:
    """Send a multi-read. Returns kazoo's async result."""
    result = kazoo.handler.async_result()
    kazoo._call(MultiRead(paths), result)
    return result


def found_or_none(results: Sequence[Found | Exception], paths: Sequence[str]) -> list[Found | NoAuth | None]:
    """The results; None for absent znodes, NoAuth for znodes that an ACL hides. Raises any other RegistryError."""
    found: list[Found | NoAuth | None] = []
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, Exception):
            error = registry_error(result, path)
            if isinstance(error, NoAuth):
                found.append(error)
            elif isinstance(error, NoNode):
                found.append(None)
            else:
                raise error
        else:
            found.append(result)
    return found
