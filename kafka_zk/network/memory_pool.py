"""One memory budget for all requests of a broker: their frames, and the memory that handlers allocate.

Every connection has an account, which is charged until its request is answered or the connection is lost. While an
account waits for memory, its connection is not read. Rules:

- ``SMALL_SHARE``: a part of the budget is for small requests only, so that large, slow requests cannot block all
  others.
- Accounts of brokers may use a reserve on top of the budget.
- No account waits forever: if there is no room, the account that has waited longest may exceed the budget until its
  request is answered (the overdraft). So, as in Kafka, at most one request exceeds the budget.
- Memory that outlives a request, for example a fetch session, has its own share (``keep``).

Buffers up to ``FREE_BYTES`` are not charged. While the budget is used up, connections are read in pieces of that size:
small requests are still handled, and thousands of connections cannot exceed the budget with one read each.

Pure. Callbacks run inside the call that made room.
Source: queued.max.request.bytes and SimpleMemoryPool.java@3.9.
"""

from collections.abc import Callable

from twisted.internet.defer import Deferred, succeed

from kafka_zk.base.turns import ClientWait
from kafka_zk.protocol.errors import ProtocolError

DEFAULT_LIMIT_BYTES = 96 * 1024 * 1024
"""The budget for queued.max.request.bytes=-1, which means no limit in Kafka. With an overdraft of one frame of
socket.request.max.bytes (100 MB) and the needs of an idle broker (50 MB), a broker stays below 300 MB."""

SMALL_BYTES = 2 * 1024 * 1024
"""Maximum size of a small request. A batch of ``message.max.bytes`` fits."""

SMALL_SHARE = 4
"""1/SMALL_SHARE of the budget is for small requests only."""

KEPT_SHARE = 4
"""1/KEPT_SHARE of the budget may be used by memory that outlives a request."""

BROKER_RESERVE_SHARE = 12
"""The reserve for requests between brokers is 1/BROKER_RESERVE_SHARE of the budget, in addition to it."""

FREE_BYTES = 4096


_BROKER, _SMALL, _BIG = range(3)  # kinds of requests


class _Ask:
    """Memory that an account waits for, in the queue ``line``. ``number``: order of the asks."""

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
    """The budget of a broker. Only for the reactor's thread.

    Attributes:
        limit_bytes: the budget, without the reserve for brokers.
        used_bytes: memory of all accounts plus ``kept_bytes``, without the overdraft.
        overdraft_bytes: memory that one account holds above the limit.
        kept_bytes: memory that outlives requests; at most 1/KEPT_SHARE of the budget.
        receive_bytes: maximum per read: FREE_BYTES while the budget is used up; otherwise 0, the whole buffer.
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
        # One queue per kind; only its first ask is considered.
        self._lines: tuple[dict[_Ask, None], ...] = ({}, {}, {})
        self._ask_count = 0
        self._overdrawn: MemoryAccount | None = None
        self._serving = False

    def account(self, *, of_broker: bool = False) -> "MemoryAccount":
        """Open an empty account."""
        return MemoryAccount(self, of_broker)

    @property
    def is_waited_for(self) -> bool:
        """True if an account waits for memory."""
        return any(self._lines)

    @property
    def keepable_bytes(self) -> int:
        """The maximum that ``keep`` would grant now."""
        return self.limit_bytes // KEPT_SHARE - self.kept_bytes

    def keep(self, size_bytes: int) -> bool:
        """Take memory that outlives a request. Returns False if its share of the budget is used up."""
        if size_bytes > self.keepable_bytes:
            return False
        self.kept_bytes += size_bytes
        self._use(size_bytes)
        return True

    def drop(self, size_bytes: int) -> None:
        """Return kept memory."""
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
        if self._serving:  # called from a callback below; the loop continues
            return
        self._serving = True
        try:
            while (ask := self._next()) is not None:
                self._grant(ask)
        finally:
            self._serving = False

    def _next(self) -> _Ask | None:
        """The next ask to grant: that of the account with the overdraft, otherwise the first one with room, otherwise
        the oldest one, whose account then gets the overdraft."""
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
"""Without a limit, for client connections, which only receive what they requested."""


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
    """The memory of one connection. Implements ``protocol.memory.Memory``.

    Attributes:
        of_broker: whether the request may use the reserve for brokers.
        size_bytes: all memory charged to the account, overdraft included.
        frame_bytes: the part held by the frame of the request in progress.
        is_released: True if that request has released its frame.
        reserved_bytes: the part that this request reserved.
        overdraft_bytes: the part above the budget.
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
        """Charge memory that is already in use."""
        self._add(size_bytes)

    def take_frame(self, size_bytes: int) -> None:
        """Charge the frame of the request in progress, unless the request has already released it."""
        if not self.is_released:
            self._add(size_bytes)
            self.frame_bytes += size_bytes

    def try_take(self, size_bytes: int, whole_bytes: int = 0) -> bool:
        """Charge memory if there is room. ``whole_bytes``: final size of the frame, which decides whether the request
        is small."""
        if not self._pool._has_room(self._kind(size_bytes, whole_bytes), size_bytes):
            return False
        self._add(size_bytes)
        return True

    def _kind(self, size_bytes: int, whole_bytes: int) -> int:
        if self.of_broker:
            return _BROKER
        return _SMALL if max(self.size_bytes + size_bytes, whole_bytes) <= SMALL_BYTES else _BIG

    def when_taken(self, size_bytes: int, granted: Callable[[], None], whole_bytes: int = 0) -> None:
        """Charge memory as soon as there is room, then call ``granted``, possibly before this returns."""
        self._pool._ask(self, size_bytes, granted, self._kind(size_bytes, whole_bytes))

    def reserve(self, size_bytes: int) -> "Deferred[None]":
        """Charge memory as soon as there is room. Fails with ClientGone if the wait is abandoned.

        Raises ProtocolError immediately if one request reserves more than the budget. (A Deferred that has already
        failed would form a reference cycle with the exception's traceback.)
        """
        if self.reserved_bytes + size_bytes > self._pool.limit_bytes:
            raise ProtocolError(f"a request that needs more than {self._pool.limit_bytes} bytes of memory")
        self.reserved_bytes += size_bytes
        if not size_bytes or self.try_take(size_bytes):  # 0 bytes must not take the overdraft
            return succeed(None)
        return Reservation(self, size_bytes)

    def withdraw(self) -> None:
        """Cancel all waiting asks."""
        for ask in self._asks:
            del ask.line[ask]
        self._asks.clear()
        self._end_overdraft_if_empty()
        self._pool._serve()

    def give_back(self, size_bytes: int) -> None:
        """Return memory that was charged."""
        assert size_bytes <= self.size_bytes
        self.reserved_bytes = max(0, self.reserved_bytes - size_bytes)
        self._remove(size_bytes)
        self._end_overdraft_if_empty()
        self._pool._serve()

    def release(self) -> None:
        """Return the memory of the request in progress, which only waits from now on."""
        size_bytes = self.frame_bytes + self.reserved_bytes
        self.frame_bytes = 0
        self.is_released = True
        if size_bytes:
            self.give_back(size_bytes)

    def settle(self, left_bytes: int = 0) -> None:
        """Return the overdraft and everything but ``left_bytes``, which belong to the next request. Call this after a
        response."""
        pool = self._pool
        self.reserved_bytes = self.frame_bytes = 0
        self._remove(self.size_bytes - left_bytes)
        if self.overdraft_bytes:  # the rest now counts against the budget
            pool.overdraft_bytes -= self.overdraft_bytes
            pool._use(self.overdraft_bytes)
            self.overdraft_bytes = 0
        if pool._overdrawn is self:
            pool._overdrawn = None
        pool._serve()

    def close(self) -> None:
        """Cancel all asks and return all memory of a lost connection."""
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
