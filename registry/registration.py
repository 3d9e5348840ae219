"""Registers an ephemeral under a fixed name, where a previous session's znode may still exist.

A killed process that restarts before its old session expires finds its own znode, which looks like that of another
live process. So the process waits as long as a leftover znode can exist, and then fails. This limit is the session
timeout, plus one tick (at most half of the timeout), after which ZooKeeper checks for expired sessions, plus one
second. A restarted ZooKeeper or a new leader gives sessions their whole timeout again, so a lost connection restarts
the wait.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

from twisted.internet.defer import Deferred

from kafka_zk.base.clock import Timers
from kafka_zk.registry.client.client import Delete, Operation, RegistryClient, SessionState, WatchedEvent, ZnodeStat
from kafka_zk.registry.client.errors import ConnectionLoss, MultiFailed, NodeExists, NoNode
from kafka_zk.registry.client.session import fires_within

GRACE_MS = 1000


def max_leftover_ms(session_timeout_ms: int) -> float:
    """How long a dead process's znode can remain; a tick is at most half a session timeout."""
    return session_timeout_ms * 1.5 + GRACE_MS


class Holder(NamedTuple):
    """Another session's znode at the path."""

    data: bytes | None
    stat: ZnodeStat


async def wait_until_expired(
    client: RegistryClient,
    clock: Timers,
    path: str,
    try_register: Callable[[], Awaitable[int | Holder]],
    refusal: Callable[[Holder], Exception],
) -> int:
    """Call ``try_register`` until it returns a czxid; after a Holder, wait for ``path`` to disappear.

    The wait lasts at most ``max_leftover_ms``; a connection loss restarts it. ``try_register`` must recognise its own
    znode, because a response may have been lost.
    Raises: the exception that ``refusal`` returns for a holder that stays; SessionLost.
    """
    deadline_ms: float | None = None

    def session_changed(_: SessionState) -> None:
        nonlocal deadline_ms
        deadline_ms = None

    remove_listener = client.add_session_listener(session_changed)
    try:
        while True:
            try:
                holder = await try_register()
                if isinstance(holder, int):
                    return holder
                now_ms = clock.seconds() * 1000
                if deadline_ms is None:
                    deadline_ms = now_ms + max_leftover_ms(client.session_timeout_ms)
                if now_ms >= deadline_ms:
                    raise refusal(holder)
                gone: Deferred[None] = Deferred()
                if await client.exists(path, partial(_fire, gone)) is not None:
                    await fires_within(clock, gone, (deadline_ms - now_ms) / 1000)
            except ConnectionLoss:
                await client.connected()
    finally:
        remove_listener()


def _fire(gone: "Deferred[None]", _: WatchedEvent) -> None:
    if not gone.called:
        gone.callback(None)


async def take(
    client: RegistryClient,
    path: str,
    creation: Sequence[Operation],
    own_previous_session_ids: Collection[int],
    present: Callable[[Holder], Awaitable[int]],
) -> int | Holder:
    """Make one attempt of ``creation``, a multi whose last result is a stat. Returns the czxid.

    If the znode belongs to this session, ``present`` returns the czxid. A znode of one of ``own_previous_session_ids``
    is replaced. For any other session's znode, returns its Holder.
    """
    while True:
        try:
            return await _czxid(client, path, creation)
        except MultiFailed as failed:
            if not isinstance(failed.cause, NodeExists):
                raise failed.cause from failed
        try:
            holder = Holder(*await client.get(path))
            if holder.stat.ephemeral_owner == client.session_id:
                return await present(holder)
            if holder.stat.ephemeral_owner not in own_previous_session_ids:
                return holder
            return await _czxid(client, path, [Delete(path, holder.stat.version), *creation])
        except (NoNode, MultiFailed):
            continue  # the znode has changed


async def _czxid(client: RegistryClient, path: str, operations: Sequence[Operation]) -> int:
    stat = (await client.multi(operations))[-1]
    assert isinstance(stat, ZnodeStat)
    return stat.czxid


async def remove_own(client: RegistryClient, path: str) -> None:
    """Delete ``path`` if it belongs to the client's session."""
    stat = await client.exists(path)
    if stat is not None and stat.ephemeral_owner == client.session_id:
        try:
            await client.delete(path)
        except NoNode:
            return
