"""Pipelined reads of many znodes, at most READS_AT_ONCE at a time."""

from collections.abc import AsyncIterator, Sequence

from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import NoAuth
from kafka_zk.registry.client.pipeline import READS_AT_ONCE, children_of, found, read_all

IDENTITY = "--zk-tls-config-file with the brokers' identity"


async def read_data(client: RegistryClient, paths: Sequence[str]) -> AsyncIterator[tuple[str, bytes | None]]:
    """The data of the znodes that exist. Raises NoAuth."""
    for start in range(0, len(paths), READS_AT_ONCE):
        window = paths[start : start + READS_AT_ONCE]
        for path, answer in zip(window, await read_all(client, window), strict=True):
            if isinstance(answer, NoAuth):
                raise answer
            if answer is not None:
                yield path, answer[0]


async def below(client: RegistryClient, parent: str) -> list[str]:
    """The paths of the znode's children."""
    return [f"{parent}/{name}" for name in await children_of(client, parent)]


async def clients_of(client: RegistryClient, users: Sequence[str]) -> list[str]:
    """The paths of all clients with quotas below these users' paths."""
    listed: list[str] = []
    for start in range(0, len(users), READS_AT_ONCE):
        parents = [f"{user}/clients" for user in users[start : start + READS_AT_ONCE]]
        answers = await found(client.children(parent) for parent in parents)
        listed += [
            f"{parent}/{name}"
            for parent, answer in zip(parents, answers, strict=True) if answer is not None
            for name in answer[0]
        ]  # fmt: skip
    return listed
