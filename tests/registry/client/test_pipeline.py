"""Reading many znodes from a server that can be asked for one at a time only."""

from collections.abc import Sequence
from typing import Any

import pytest

from kafka_zk.registry.client.errors import NoAuth, Unimplemented
from kafka_zk.registry.client.pipeline import Found, read_all
from tests.registry.world import World


def data_of(entry: Found | NoAuth | None) -> bytes | None:
    assert not isinstance(entry, NoAuth)
    return entry and entry[0]


def test_a_server_without_multi_read_is_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper before 3.6."""
    world = World(1)
    client = world.clients[0]

    async def create() -> None:
        await client.create("/a", b"1")

    world.scheduler.run(create())
    paths = ["/a", "/b", "/a"]
    whole = world.scheduler.run(read_all(client, paths))
    assert [data_of(entry) for entry in whole] == [b"1", None, b"1"]

    async def refuse(paths: Sequence[str]) -> Any:
        raise Unimplemented(paths[0])

    monkeypatch.setattr(client, "get_all", refuse)
    before = client.counts["get"]
    assert world.scheduler.run(read_all(client, paths)) == whole
    assert client.counts["get"] - before == 3
