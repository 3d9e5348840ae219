"""Awaiting many operations that were sent together: one round trip, not one after another."""

from collections.abc import Awaitable, Iterable
from typing import TypeVar

from kafka_zk.registry.client import Create, RegistryClient
from kafka_zk.registry.errors import NodeExists, NoNode, RegistryError

T = TypeVar("T")


async def outcomes(pending: Iterable[Awaitable[T]]) -> list[T | RegistryError]:
    """All outcomes in order: each a result, or the RegistryError that it failed with."""
    settled: list[T | RegistryError] = []
    for operation in list(pending):  # all are sent before the first is awaited
        try:
            settled.append(await operation)
        except RegistryError as error:
            settled.append(error)
    return settled


async def results(pending: Iterable[Awaitable[T]]) -> list[T]:
    """All results in order. Raises the first failure, after all have come back."""
    return [_result(outcome) for outcome in await outcomes(pending)]


async def found(pending: Iterable[Awaitable[T]]) -> list[T | None]:
    """As ``results``, with None in the place of what is not there (NoNode)."""
    return [None if isinstance(outcome, NoNode) else _result(outcome) for outcome in await outcomes(pending)]


async def ensure_paths(client: RegistryClient, paths: Iterable[str]) -> None:
    """Create the given persistent znodes and their parents, with null data, where they are absent."""
    wanted: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        wanted.update(dict.fromkeys("/".join(parts[: depth + 1]) for depth in range(1, len(parts))))
    for outcome in await outcomes(client.create(path) for path in wanted):
        if not isinstance(outcome, NodeExists):
            _result(outcome)


async def create_with_parents(client: RegistryClient, operation: Create) -> str:
    """Create one znode, making its parents if they are absent. Returns the path made. Raises NodeExists."""
    try:
        return await _create(client, operation)
    except NoNode:
        await ensure_paths(client, [operation.path.rpartition("/")[0]])
        return await _create(client, operation)


def _create(client: RegistryClient, operation: Create) -> Awaitable[str]:
    return client.create(operation.path, operation.data, ephemeral=operation.ephemeral, sequential=operation.sequential)


def _result(outcome: T | RegistryError) -> T:
    if isinstance(outcome, RegistryError):
        raise outcome
    return outcome
