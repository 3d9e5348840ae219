"""One budget for what the requests of a broker hold: their frames, and what is made of them while they are answered.

Every connection has an account. What it takes counts until its request is answered or the connection is over. An
account that finds no room waits; its connection is not read meanwhile. Who gets what:

- a part of the budget (``SMALL_SHARE``) is only for requests that are small, so that a few big ones that come slowly do
  not keep everybody else waiting;
- accounts of brokers may use a reserve on top of the budget;
- nobody waits for ever: when there is no room, one account, the one that has waited longest, may take what it needs all
  the same. It has the overdraft until its request is answered, then the next one has it. So the budget is exceeded by
  what one request needs, as Kafka's memory pool overshoots by one;
- what lasts longer than a request, a fetch session, is kept in a share of its own (``keep``).

What is smaller than ``FREE_BYTES`` is not counted. While the budget is used up, connections are read in pieces of that
size: small requests go on being answered, and thousands of connections cannot exceed the budget by what each of them
happens to send.

Pure: no clock, no I/O. Callbacks run inside of the call that made room.
Tests: tests/kafka_zk/network/test_memory_pool.py. Source: queued.max.request.bytes and SimpleMemoryPool.java@3.9.
"""

from collections.abc import Callable

from twisted.internet.defer import Deferred, succeed

from kafka_zk.base.turns import ClientWait
from kafka_zk.protocol.errors import ProtocolError

DEFAULT_LIMIT_BYTES = 96 * 1024 * 1024
"""For queued.max.request.bytes=-1, which Kafka takes for no limit. With the overdraft for one frame of
socket.request.max.bytes (100 MB) and what an idle broker needs (50 MB), a broker stays below 300 MB."""

SMALL_BYTES = 2 * 1024 * 1024
"""A request up to this size is a small one: a batch of message.max.bytes fits."""

SMALL_SHARE = 4
"""One in so many bytes of the budget is for small requests only."""

KEPT_SHARE = 4
"""One in so many bytes of the budget can be used by what lasts longer than a request."""

BROKER_RESERVE_SHARE = 12
"""One byte on top of so many of the budget is for requests between brokers."""

FREE_BYTES = 4096


_BROKER, _SMALL, _BIG = range(3)  # kinds of requests


class _Ask:
    """Memory that an account waits for; ``number`` counts them."""

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
    """See the module's docstring. Belongs to the reactor's thread.

    Attributes:
        used_bytes: what all accounts hold and what is kept, without the overdraft.
        overdraft_bytes: what one account holds above it.
        receive_bytes: how much of a connection is read at once: 0 for whatever fits into the buffer.
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
        self._limits_bytes = (  # by kind
            limit_bytes + limit_bytes // BROKER_RESERVE_SHARE,
            limit_bytes,
            limit_bytes - limit_bytes // SMALL_SHARE,
        )
        # Each kind waits in a line of its own, of which only the first is looked at.
        self._lines: tuple[dict[_Ask, None], ...] = ({}, {}, {})
        self._ask_count = 0
        self._overdrawn: MemoryAccount | None = None
        self._serving = False

    def account(self, *, of_broker: bool = False) -> "MemoryAccount":
        """A new account, which holds nothing."""
        return MemoryAccount(self, of_broker)

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody found no room."""
        return any(self._lines)

    @property
    def keepable_bytes(self) -> int:
        """What ``keep`` would give."""
        return self.limit_bytes // KEPT_SHARE - self.kept_bytes

    def keep(self, size_bytes: int) -> bool:
        """Take memory for something that lasts, if its share of the budget has room for it."""
        if size_bytes > self.keepable_bytes:
            return False
        self.kept_bytes += size_bytes
        self._use(size_bytes)
        return True

    def drop(self, size_bytes: int) -> None:
        """What was kept is gone."""
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
        """Give to those who wait what there is."""
        if self._serving:  # by a callback of ``_serve``, which looks again
            return
        self._serving = True
        try:
            while (ask := self._next()) is not None:
                self._grant(ask)
        finally:
            self._serving = False

    def _next(self) -> _Ask | None:
        """Who comes next: whoever finds room, else the first of all, if nobody has the overdraft."""
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
"""For clients, who take what they asked for."""


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
    """What one connection holds. Implements ``protocol.memory.Memory``."""

    __slots__ = (
        "_asks", "_pool", "frame_bytes", "is_released", "of_broker", "overdraft_bytes", "reserved_bytes", "size_bytes",
    )  # fmt: skip

    def __init__(self, pool: MemoryPool, of_broker: bool) -> None:
        self._pool = pool
        self._asks: list[_Ask] = []
        self.of_broker = of_broker
        self.size_bytes = 0
        self.frame_bytes = 0  # of the request that is being answered
        self.is_released = False  # that request has let go of its frame
        self.reserved_bytes = 0  # for it
        self.overdraft_bytes = 0  # a part of size_bytes

    def take(self, size_bytes: int) -> None:
        """Count memory that is in use already."""
        self._add(size_bytes)

    def take_frame(self, size_bytes: int) -> None:
        """Count the frame of the request that is being answered, unless the request has let go of it already."""
        if not self.is_released:
            self._add(size_bytes)
            self.frame_bytes += size_bytes

    def try_take(self, size_bytes: int, whole_bytes: int = 0) -> bool:
        """Count memory that will be used, if there is room for it; ``whole_bytes`` is what it may become with time."""
        if not self._pool._has_room(self._kind(size_bytes, whole_bytes), size_bytes):
            return False
        self._add(size_bytes)
        return True

    def _kind(self, size_bytes: int, whole_bytes: int) -> int:
        if self.of_broker:
            return _BROKER
        return _SMALL if max(self.size_bytes + size_bytes, whole_bytes) <= SMALL_BYTES else _BIG

    def when_taken(self, size_bytes: int, granted: Callable[[], None], whole_bytes: int = 0) -> None:
        """Take memory as soon as there is room for it and then call ``granted``, maybe at once."""
        self._pool._ask(self, size_bytes, granted, self._kind(size_bytes, whole_bytes))

    def reserve(self, size_bytes: int) -> "Deferred[None]":
        """Take memory as soon as there is room. Fails with ClientGone when it is abandoned.

        Raises: ProtocolError, at once, if one request asks for more than the budget. (A Deferred that had failed
        already would be held by the exception's traceback, and hold it.)
        """
        if self.reserved_bytes + size_bytes > self._pool.limit_bytes:
            raise ProtocolError(f"a request that needs more than {self._pool.limit_bytes} bytes of memory")
        self.reserved_bytes += size_bytes
        if not size_bytes or self.try_take(size_bytes):  # who needs nothing must not get the overdraft
            return succeed(None)
        return Reservation(self, size_bytes)

    def withdraw(self) -> None:
        """Do not wait any longer."""
        for ask in self._asks:
            del ask.line[ask]
        self._asks.clear()
        self._end_overdraft_if_empty()
        self._pool._serve()

    def give_back(self, size_bytes: int) -> None:
        """Memory that was taken is free again."""
        assert size_bytes <= self.size_bytes
        self.reserved_bytes = max(0, self.reserved_bytes - size_bytes)
        self._remove(size_bytes)
        self._end_overdraft_if_empty()
        self._pool._serve()

    def release(self) -> None:
        """The request that is being answered only waits from now on, and holds nothing."""
        size_bytes = self.frame_bytes + self.reserved_bytes
        self.frame_bytes = 0
        self.is_released = True
        if size_bytes:
            self.give_back(size_bytes)

    def settle(self, left_bytes: int = 0) -> None:
        """The request is answered: give back the overdraft and all but ``left_bytes``, which belong to the next one."""
        pool = self._pool
        self.reserved_bytes = self.frame_bytes = 0
        self._remove(self.size_bytes - left_bytes)
        if self.overdraft_bytes:  # what is left counts as everybody's
            pool.overdraft_bytes -= self.overdraft_bytes
            pool._use(self.overdraft_bytes)
            self.overdraft_bytes = 0
        if pool._overdrawn is self:
            pool._overdrawn = None
        pool._serve()

    def close(self) -> None:
        """The connection is over: nothing is held, nobody waits."""
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
        """The overdraft first."""
        pool = self._pool
        overdraft_bytes = min(size_bytes, self.overdraft_bytes)
        self.overdraft_bytes -= overdraft_bytes
        pool.overdraft_bytes -= overdraft_bytes
        self.size_bytes -= size_bytes
        pool._use(overdraft_bytes - size_bytes)

    def _end_overdraft_if_empty(self) -> None:
        if not self.size_bytes and self._pool._overdrawn is self:
            self._pool._overdrawn = None
