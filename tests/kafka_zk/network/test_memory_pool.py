"""The budget for requests: which account gets memory, which waits, and that each wait ends."""

import random
from functools import partial

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.network.memory_pool import FREE_BYTES, SMALL_BYTES, MemoryAccount, MemoryPool

MB = 1024 * 1024
LIMIT = 96 * MB


class Asker:
    """An account, and the amounts that it waited for and got."""

    def __init__(self, pool: MemoryPool, *, of_broker: bool = False) -> None:
        self.account = pool.account(of_broker=of_broker)
        self.granted: list[int] = []

    def wait(self, size_bytes: int) -> None:
        self.account.when_taken(size_bytes, lambda: self.granted.append(size_bytes))


def full(pool: MemoryPool) -> MemoryAccount:
    """An account that holds the whole budget."""
    account = pool.account()
    account.take(pool.limit_bytes)
    return account


def test_what_is_taken_is_free_when_the_request_is_answered() -> None:
    pool = MemoryPool(LIMIT)
    account = pool.account()
    assert account.try_take(10 * MB)
    account.take(5 * MB)
    account.give_back(1 * MB)
    assert (pool.used_bytes, account.size_bytes) == (14 * MB, 14 * MB)
    account.settle(3 * MB)
    assert (pool.used_bytes, account.size_bytes) == (3 * MB, 3 * MB)
    account.close()
    assert (pool.used_bytes, account.size_bytes) == (0, 0)


def test_big_requests_leave_room_for_small_ones() -> None:
    """Small requests have room however slowly the big requests arrive."""
    pool = MemoryPool(LIMIT)
    big = [pool.account() for _ in range(100)]
    assert sum(account.try_take(4 * MB) for account in big) == 18
    assert pool.receive_bytes == 0
    assert sum(pool.account().try_take(1 * MB) for _ in range(100)) == 24


def test_an_account_that_grows_is_no_small_one_any_more() -> None:
    pool = MemoryPool(LIMIT)
    account = pool.account()
    assert account.try_take(SMALL_BYTES)
    pool.account().take(LIMIT // 4 * 3 - SMALL_BYTES)
    assert not account.try_take(1)
    assert pool.account().try_take(SMALL_BYTES)


def test_a_budget_that_is_used_up_is_received_in_small_pieces() -> None:
    """Therefore, connections that are read for the first time cannot exceed it by much."""
    pool = MemoryPool(LIMIT)
    holder = full(pool)
    assert pool.receive_bytes == FREE_BYTES
    holder.settle()
    assert pool.receive_bytes == 0


def test_who_waits_gets_what_others_give_back_the_oldest_first() -> None:
    pool = MemoryPool(LIMIT)
    first, second, third = pool.account(), pool.account(), pool.account()
    for account in (first, second, third):
        account.take(LIMIT // 3)
    blocked = Asker(pool)
    blocked.wait(200 * MB)  # it exceeds the budget from now on
    assert blocked.granted == [200 * MB]
    a, b = Asker(pool), Asker(pool)
    a.wait(30 * MB)
    b.wait(30 * MB)
    assert pool.is_waited_for
    first.settle()
    assert (a.granted, b.granted) == ([], [])  # a quarter is for small ones
    second.settle()
    assert (a.granted, b.granted) == ([30 * MB], [])
    third.settle()
    assert b.granted == [30 * MB]
    assert not pool.is_waited_for


def test_what_does_not_fit_does_not_hold_up_what_does() -> None:
    pool = MemoryPool(LIMIT)
    holder = full(pool)
    overdrawn, big, small = Asker(pool), Asker(pool), Asker(pool)
    overdrawn.wait(1 * MB)
    big.wait(80 * MB)
    small.wait(1 * MB)
    holder.give_back(2 * MB)
    assert (big.granted, small.granted) == ([], [1 * MB])


def test_one_account_at_a_time_may_exceed_the_budget() -> None:
    """The account may finish its request, and then the next one gets its turn, so each wait ends however full the pool
    is.
    """
    pool = MemoryPool(LIMIT)
    full(pool)
    askers = [Asker(pool) for _ in range(3)]
    for asker in askers:
        asker.account.take(0)
        asker.wait(100 * MB)
    assert [len(asker.granted) for asker in askers] == [1, 0, 0]
    askers[0].wait(30 * MB)  # the response needs more memory
    assert [len(asker.granted) for asker in askers] == [2, 0, 0]
    assert (pool.used_bytes, pool.overdraft_bytes) == (LIMIT, 130 * MB)
    askers[0].account.settle()
    assert [len(asker.granted) for asker in askers] == [2, 1, 0]
    askers[1].account.close()
    assert [len(asker.granted) for asker in askers] == [2, 1, 1]
    assert pool.overdraft_bytes == 100 * MB


def test_the_overdraft_takes_no_room_from_others() -> None:
    """A small request can proceed while a big one above the budget is being received."""
    pool = MemoryPool(LIMIT)
    pool.account().take(LIMIT // 4 * 3)
    big = Asker(pool)
    big.wait(100 * MB)
    assert big.granted == [100 * MB]
    assert pool.account().try_take(1 * MB)
    assert pool.receive_bytes == 0


def test_an_answered_request_ends_the_overdraft_of_its_connection() -> None:
    """The overdraft ends even if the next frame has begun: its bytes count as usual, and other accounts come first."""
    pool = MemoryPool(LIMIT)
    full(pool)
    first, second = Asker(pool), Asker(pool)
    first.wait(50 * MB)
    second.wait(50 * MB)
    first.account.take(1 * MB)
    first.account.settle(1 * MB)
    assert second.granted == [50 * MB]
    first.wait(50 * MB)
    assert first.granted == [50 * MB]
    assert (pool.used_bytes, pool.overdraft_bytes) == (LIMIT + 1 * MB, 50 * MB)


def test_brokers_have_a_reserve() -> None:
    pool = MemoryPool(LIMIT)
    full(pool)
    assert not pool.account().try_take(1 * MB)
    broker = pool.account(of_broker=True)
    assert broker.try_take(8 * MB)
    assert not broker.try_take(1)


def test_what_lasts_has_a_share_of_its_own() -> None:
    """Fetch sessions cannot use the memory of requests."""
    pool = MemoryPool(LIMIT)
    assert pool.keep(LIMIT // 4)
    assert not pool.keep(1)
    assert pool.used_bytes == LIMIT // 4
    pool.drop(1000)
    assert pool.keep(1000)
    assert not pool.keep(1)


def test_a_connection_that_is_over_waits_no_longer() -> None:
    pool = MemoryPool(LIMIT)
    holder = full(pool)
    overdrawn, gone = Asker(pool), Asker(pool)
    overdrawn.wait(1)
    gone.wait(1)
    gone.account.close()
    assert not pool.is_waited_for
    holder.settle()
    assert gone.granted == []


def test_a_handler_waits_for_memory_and_stops_when_its_client_is_gone() -> None:
    pool = MemoryPool(LIMIT)
    holder = full(pool)
    Asker(pool).wait(1)
    patient, impatient = pool.account().reserve(1 * MB), pool.account().reserve(1 * MB)
    told: list[BaseException | None] = []

    def note(failure: Failure) -> None:
        told.append(failure.value)

    impatient.addErrback(note)
    impatient.abandon()  # type: ignore[attr-defined]
    assert isinstance(told[0], ClientGone)
    assert not patient.called
    holder.settle()
    assert patient.called


def test_those_who_wait_are_not_served_inside_of_each_other() -> None:
    """A thousand accounts that return memory as soon as they get it need no deep stack."""
    pool = MemoryPool(LIMIT)
    holder = full(pool)
    askers = [pool.account() for _ in range(5000)]
    served: list[int] = []

    def finish(number: int) -> None:
        served.append(number)
        askers[number].settle()

    Asker(pool).wait(1)
    for number, account in enumerate(askers):
        account.when_taken(2 * MB, partial(finish, number))
    holder.settle()
    assert served == list(range(5000))


@pytest.mark.parametrize("seed", range(20))
def test_everybody_who_waits_is_served_in_the_end(seed: int) -> None:
    """Accounts take memory, wait and finish at random: the sums are right, the bound holds, and each wait ends."""
    rnd = random.Random(seed)
    pool = MemoryPool(1000)
    largest = 400
    waiting: dict[MemoryAccount, Deferred[None]] = {}
    holding: list[MemoryAccount] = []

    def check() -> None:
        for account in [account for account, done in waiting.items() if done.called]:
            del waiting[account]
            holding.append(account)
        everybody = [*holding, *waiting]
        assert sum(a.size_bytes for a in everybody) == pool.used_bytes + pool.overdraft_bytes
        assert pool.used_bytes <= 1000
        assert pool.overdraft_bytes <= largest
        assert sum(bool(a.overdraft_bytes) for a in everybody) <= 1

    for _ in range(300):
        if rnd.random() < 0.6 or not holding:
            account = pool.account()
            waiting[account] = account.reserve(rnd.randint(1, largest))
        else:
            holding.pop(rnd.randrange(len(holding))).settle()
        check()
    while waiting:
        assert holding, "every account waits"
        holding.pop().close()
        check()
    for account in holding:
        account.close()
    assert (pool.used_bytes, pool.overdraft_bytes) == (0, 0)
