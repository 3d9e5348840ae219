"""The metadata log of an Apache Kafka 3.9.1 controller in dual-write mode, and the znodes at the same moment.

``recorded/`` was written by ``python -m tests.peers.clusters.record_metadata_log``.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from kafka_zk.registry.client.client import RegistryClient, ZnodeStat
from kafka_zk.registry.client.errors import NoAuth, NoNode

RECORDED = Path(__file__).parent / "recorded"
LAST_OFFSET = 64
SNAPSHOT_END = 58


def znodes() -> dict[str, bytes]:
    listed: dict[str, str] = json.loads((RECORDED / "znodes.json").read_text())
    return {path: base64.b64decode(data) for path, data in listed.items()}


_STAT = ZnodeStat(*[0] * len(ZnodeStat._fields))


class RecordedClient:
    """Reads recorded znodes. ``hidden``: a path that cannot be read, and neither can anything below it."""

    def __init__(self, znodes: Mapping[str, bytes], hidden: str = "") -> None:
        self._znodes = znodes
        self._hidden = hidden

    async def get_all(self, paths: list[str]) -> list[Any]:
        return [self._found(path) for path in paths]

    async def get(self, path: str) -> tuple[bytes, ZnodeStat]:
        found = self._found(path)
        if found is None:
            raise NoNode(path)
        if isinstance(found, NoAuth):
            raise found
        return found

    async def children(self, path: str) -> tuple[list[str], ZnodeStat]:
        await self.get(path)
        below = f"{path}/"
        names = {each.removeprefix(below).split("/")[0] for each in self._znodes if each.startswith(below)}
        return sorted(names), _STAT

    async def sync(self) -> None: ...

    def _found(self, path: str) -> tuple[bytes, ZnodeStat] | NoAuth | None:
        if self._hidden and path.startswith(self._hidden):
            return NoAuth(path)
        return (self._znodes[path], _STAT) if path in self._znodes else None


def client(znodes: Mapping[str, bytes], hidden: str = "") -> RegistryClient:
    return cast(RegistryClient, RecordedClient(znodes, hidden))
