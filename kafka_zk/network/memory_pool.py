"""One memory budget for a broker's requests: their frames, and the memory that handlers allocate.

Every connection has an account, charged until its request is answered or the connection is lost. While an account
waits for memory, its connection is not read. Rules:

- ``SMALL_SHARE`` of the budget is for small requests, so that large, slow ones cannot block all others.
- Brokers' accounts may use a reserve on top.
- No account waits forever: if there is no room, the account that has waited longest may exceed the budget until its
  request is answered (the overdraft). So, as in Kafka, at most one request exceeds the budget.
- Memory that outlives a request, for example a fetch session, has its own share (``keep``).

Up to ``FREE_BYTES``, buffers are not charged. While the budget is used up, connections are read in pieces of that size:
small requests are still handled, and thousands of connections cannot exceed the budget with one read each.

Pure; callbacks run inside the call that made room.
Source: queued.max.request.bytes and SimpleMemoryPool.java@3.9.
"""

from collections.abc import Callable

from twisted.internet.defer import Deferred, succeed

from kafka_zk.base.turns import ClientWait
from kafka_zk.protocol.errors import ProtocolError

DEFAULT_LIMIT_BYTES = 96 * 1024 * 1024
"""The budget for queued.max.request.bytes=-1 (in Kafka no limit). With a frame of socket.request.max.bytes (100 MB) as
overdraft and 50 MB for an idle broker, a broker stays below 300 MB."""

SMALL_BYTES = 2 * 1024 * 1024
"""Largest small request; a batch of ``message.max.bytes`` fits."""

SMALL_SHARE = 4
"""1/SMALL_SHARE of the budget is reserved for small requests."""

KEPT_SHARE = 4
"""1/KEPT_SHARE of the budget may be used by memory that outlives a request."""

BROKER_RESERVE_SHARE = 12
"""The brokers' reserve, in addition to the budget, is 1/BROKER_RESERVE_SHARE of it."""

FREE_BYTES = 4096


_BROKER, _SMALL, _BIG = range(3)  # kinds of requests


class _Ask:
    """An account's pending request, in the queue ``line``; requests are numbered in order."""

    __slots__ = ("account", "granted", "line", "number", "size_bytes")

    def __init__(
        self,
        account: "MemoryAccount",
        size_bytes: int,
        granted: Callable[[], None],
        line: "dict[_Ask, None]",
        number: int,
    ) -> None:
        self.account = account
        self.size_bytes = size_bytes
        self.granted = granted
        self.line = line
        self.number = number


class MemoryPool:
    """A broker's budget, for the reactor's thread only.

    Attributes:
        limit_bytes: the budget, without the brokers' reserve.
        used_bytes: all accounts plus ``kept_bytes``, without the overdraft.
        overdraft_bytes: the bytes that one account holds above the limit.
        kept_bytes: memory that outlives requests, at most 1/KEPT_SHARE of the budget.
        receive_bytes: maximum per read: FREE_BYTES while the budget is used up, otherwise 0 for the whole buffer.
    """

    def __init__(self, limit_bytes: int = -1) -> None:
        """``limit_bytes``: queued.max.request.bytes."""
        if limit_bytes <= 0:
            limit_bytes = DEFAULT_LIMIT_BYTES
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.overdraft_bytes = 0
        self.kept_bytes = 0
        self.receive_bytes = 0
        self._limits_bytes = (  # indexed by kind
            limit_bytes + limit_bytes // BROKER_RESERVE_SHARE,
            limit_bytes,
            limit_bytes - limit_bytes // SMALL_SHARE,
        )
        # The waiting asks by kind; only the first one of each kind is considered.
        self._lines: tuple[dict[_Ask, None], ...] = ({}, {}, {})
        self._ask_count = 0
        self._overdrawn: MemoryAccount | None = None
        self._serving = False

    def account(self, *, of_broker: bool = False) -> "MemoryAccount":
        return MemoryAccount(self, of_broker)

    @property
    def is_waited_for(self) -> bool:
        return any(self._lines)

    @property
    def keepable_bytes(self) -> int:
        """The maximum that ``keep`` would grant now."""
        return self.limit_bytes // KEPT_SHARE - self.kept_bytes

    def keep(self, size_bytes: int) -> bool:
        """Take memory that outlives a request; False if its share is used up."""
        if size_bytes > self.keepable_bytes:
            return False
        self.kept_bytes += size_bytes
        self._use(size_bytes)
        return True

    def drop(self, size_bytes: int) -> None:
        assert size_bytes <= self.kept_bytes
        self.kept_bytes -= size_bytes
        self._use(-size_bytes)
        self._serve()

    def _use(self, size_bytes: int) -> None:
        self.used_bytes += size_bytes
        self.receive_bytes = FREE_BYTES if self.used_bytes >= self.limit_bytes else 0

    def _has_room(self, kind: int, size_bytes: int) -> bool:
        return self.used_bytes + size_bytes <= self._limits_bytes[kind]

    def _ask(self, account: "MemoryAccount", size_bytes: int, granted: Callable[[], None], kind: int) -> None:
        self._ask_count += 1
        ask = _Ask(account, size_bytes, granted, self._lines[kind], self._ask_count)
        ask.line[ask] = None
        account._asks.append(ask)
        self._serve()

    def _serve(self) -> None:
        if self._serving:  # called from a callback below
            return
        self._serving = True
        try:
            while (ask := self._next()) is not None:
                self._grant(ask)
        finally:
            self._serving = False

    def _next(self) -> _Ask | None:
        """The ask to grant next: that of the account with the overdraft, otherwise the first for which there is room,
        otherwise the oldest, which gets the overdraft."""
        if self._overdrawn is not None and self._overdrawn._asks:
            return self._overdrawn._asks[0]
        first: _Ask | None = None
        for kind, line in enumerate(self._lines):
            if line:
                ask = next(iter(line))
                if self._has_room(kind, ask.size_bytes):
                    return ask
                if first is None or ask.number < first.number:
                    first = ask
        if first is None or self._overdrawn is not None:
            return None
        self._overdrawn = first.account
        return first

    def _grant(self, ask: _Ask) -> None:
        del ask.line[ask]
        ask.account._asks.remove(ask)
        ask.account._add(ask.size_bytes)
        ask.granted()


UNBOUNDED = MemoryPool(2**62)
"""A pool without a limit, for client connections, which only receive what they requested."""


class Reservation(ClientWait[None]):
    """Memory that a request waits for."""

    def __init__(self, account: "MemoryAccount", size_bytes: int) -> None:
        super().__init__()
        self._account = account
        account._pool._ask(account, size_bytes, self._granted, account._kind(size_bytes, 0))

    def _granted(self) -> None:
        self.callback(None)

    def abandon(self) -> None:
        self._account.withdraw()
        super().abandon()


class MemoryAccount:
    """One connection's memory; implements ``protocol.memory.Memory``.

    Attributes:
        of_broker: may use the brokers' reserve.
        size_bytes: all that is charged, with the overdraft.
        frame_bytes: the part of ``size_bytes`` for the frame of the request in progress.
        is_released: the request in progress has released its frame.
        reserved_bytes: the part of ``size_bytes`` that this request reserved.
        overdraft_bytes: the part of ``size_bytes`` that exceeds the budget.
    """

    __slots__ = (
        "_asks", "_pool", "frame_bytes", "is_released", "of_broker", "overdraft_bytes", "reserved_bytes", "size_bytes",
    )  # fmt: skip

    def __init__(self, pool: MemoryPool, of_broker: bool) -> None:
        self._pool = pool
        self._asks: list[_Ask] = []
        self.of_broker = of_broker
        self.size_bytes = 0
        self.frame_bytes = 0
        self.is_released = False
        self.reserved_bytes = 0
        self.overdraft_bytes = 0

    def take(self, size_bytes: int) -> None:
        """Charge memory that is in use already."""
        self._add(size_bytes)

    def take_frame(self, size_bytes: int) -> None:
        """Charge the request's frame, unless it was released."""
        if not self.is_released:
            self._add(size_bytes)
            self.frame_bytes += size_bytes

    def try_take(self, size_bytes: int, whole_bytes: int = 0) -> bool:
        """Charge memory if there is room. ``whole_bytes``: the frame's final size, which makes the request small or
        not."""
        if not self._pool._has_room(self._kind(size_bytes, whole_bytes), size_bytes):
            return False
        self._add(size_bytes)
        return True

    def _kind(self, size_bytes: int, whole_bytes: int) -> int:
        if self.of_broker:
            return _BROKER
        return _SMALL if max(self.size_bytes + size_bytes, whole_bytes) <= SMALL_BYTES else _BIG

    def when_taken(self, size_bytes: int, granted: Callable[[], None], whole_bytes: int = 0) -> None:
        """Charge memory when there is room, then call ``granted``, possibly before this returns."""
        self._pool._ask(self, size_bytes, granted, self._kind(size_bytes, whole_bytes))

    def reserve(self, size_bytes: int) -> "Deferred[None]":
        """Charge memory as soon as there is room. Fails with ClientGone if the wait is abandoned.

        Raises ProtocolError immediately if one request reserves more than the budget. (A failed Deferred would form a
        reference cycle with the traceback.)
        """
        if self.reserved_bytes + size_bytes > self._pool.limit_bytes:
            raise ProtocolError(f"a request that needs more than {self._pool.limit_bytes} bytes of memory")
        self.reserved_bytes += size_bytes
        if not size_bytes or self.try_take(size_bytes):  # a request for 0 bytes must not take the overdraft
            return succeed(None)
        return Reservation(self, size_bytes)

    def withdraw(self) -> None:
        for ask in self._asks:
            del ask.line[ask]
        self._asks.clear()
        self._end_overdraft_if_empty()
        self._pool._serve()

    def give_back(self, size_bytes: int) -> None:
        assert size_bytes <= self.size_bytes
        self.reserved_bytes = max(0, self.reserved_bytes - size_bytes)
        self._remove(size_bytes)
        self._end_overdraft_if_empty()
        self._pool._serve()

    def release(self) -> None:
        """Return the memory of a request that from now on only waits."""
        size_bytes = self.frame_bytes + self.reserved_bytes
        self.frame_bytes = 0
        self.is_released = True
        if size_bytes:
            self.give_back(size_bytes)

    def settle(self, left_bytes: int = 0) -> None:
        """Return the overdraft after a response, and all but ``left_bytes``, which belong to the next request."""
        pool = self._pool
        self.reserved_bytes = self.frame_bytes = 0
        self._remove(self.size_bytes - left_bytes)
        if self.overdraft_bytes:  # the bytes that are left count against the budget from now on
            pool.overdraft_bytes -= self.overdraft_bytes
            pool._use(self.overdraft_bytes)
            self.overdraft_bytes = 0
        if pool._overdrawn is self:
            pool._overdrawn = None
        pool._serve()

    def close(self) -> None:
        for ask in self._asks:
            del ask.line[ask]
        self._asks.clear()
        self.settle()

    def _add(self, size_bytes: int) -> None:
        pool = self._pool
        if pool._overdrawn is self and not pool._has_room(_BIG, size_bytes):
            self.overdraft_bytes += size_bytes
            pool.overdraft_bytes += size_bytes
        else:
            pool._use(size_bytes)
        self.size_bytes += size_bytes

    def _remove(self, size_bytes: int) -> None:
        pool = self._pool
        overdraft_bytes = min(size_bytes, self.overdraft_bytes)
        self.overdraft_bytes -= overdraft_bytes
        pool.overdraft_bytes -= overdraft_bytes
        self.size_bytes -= size_bytes
        pool._use(overdraft_bytes - size_bytes)

    def _end_overdraft_if_empty(self) -> None:
        if not self.size_bytes and self._pool._overdrawn is self:
            self._pool._overdrawn = None
