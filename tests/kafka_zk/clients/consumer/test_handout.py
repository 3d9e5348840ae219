"""The records that a stream's user was given, and those that are processed."""

import threading
from collections.abc import Callable

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.handout import Handout
from kafka_zk.clients.consumer.records import ConsumerRecord

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def record(tp: TopicPartition, offset: int) -> ConsumerRecord:
    return ConsumerRecord(tp.topic, tp.partition, offset, 0, None, b"", (), 0, False)


RECORDS = [record(A, 5), record(A, 6), record(B, 9), record(A, 8)]


def make(may_act: Callable[[], bool] = lambda: True, on_done: Callable[[], None] = lambda: None) -> Handout:
    handout = Handout(may_act, on_done)
    handout.load(list(RECORDS))
    return handout


def test_asking_for_more_says_that_the_former_is_done() -> None:
    """One by one: the record that was handed out last is held, all earlier ones are processed."""
    handout = make()
    assert handout.next() == RECORDS[0] and handout.next() == RECORDS[1]
    assert handout.held() == {A}
    assert handout.undone_offsets() == {A: 6, B: 9}
    assert handout.waiting_offsets() == {A: 8, B: 9}
    handout.next()
    assert handout.held() == {B} and handout.undone_offsets() == {A: 8, B: 9}


def test_a_batch_is_held_as_a_whole() -> None:
    """With poll, records count as processed at the next poll."""
    handout = make()
    assert handout.remaining() == RECORDS
    assert handout.undone_offsets() == {A: 5, B: 9} and handout.waiting_offsets() == {}
    handout.done()
    assert handout.held() == set() and handout.undone_offsets() == {}
    assert handout.remaining() == []


def test_nothing_is_handed_out_after_the_withdrawal() -> None:
    """Waiting records of the partition are dropped, held ones stay held, and other partitions continue."""
    handout = make()
    handout.next()
    assert handout.withdraw([A]) == {A: 6}
    assert handout.held() == {A}
    assert handout.next() == RECORDS[2]
    assert handout.next() is None and not handout.has_waiting


def test_a_forgotten_partition_does_not_count_any_more() -> None:
    """Neither held nor waiting records count; the user is remembered as their holder until the next request."""
    handout = make()
    batch = handout.remaining()
    handout.forget([A])
    assert batch == RECORDS, "the list belongs to the user"
    assert handout.undone_offsets() == {B: 9} and handout.lost() == {A}
    handout.done()
    assert handout.lost() == set()


def test_no_hand_out_without_the_lease() -> None:
    """may_act is called at each hand-out; a refusal does not lose the record."""
    allowed = [True, False, False, True]
    handout = make(lambda: allowed.pop(0))
    assert handout.next() == RECORDS[0]
    assert handout.next() is None and handout.remaining() == []
    assert handout.undone_offsets() == {A: 6, B: 9}, "the next request meant that the first record was processed"
    assert handout.next() == RECORDS[1]


def test_who_waits_for_the_user_is_told_once() -> None:
    """The handout calls ``on_done`` only after ``notify_done`` was set, and only once."""
    told: list[bool] = []
    handout = make(on_done=lambda: told.append(True))
    handout.next()
    handout.notify_done = True
    handout.next()
    handout.next()
    assert told == [True]


def test_the_thread_that_holds_is_known() -> None:
    """Leaving a with block concerns only the records of the same thread."""
    handout = make()
    taker = threading.Thread(target=handout.next)
    taker.start()
    taker.join()
    assert not handout.held_by_this_thread()
    handout.next()
    assert handout.held_by_this_thread()


@pytest.mark.parametrize("seed", range(3))
def test_withdrawal_and_hand_out_exclude_each_other(seed: int) -> None:
    """A thread takes records while they are withdrawn: it gets exactly those that were not withdrawn."""
    handout = Handout(lambda: True, lambda: None)
    records = [record(A, offset) for offset in range(20_000)]
    handout.load(list(records))
    taken: list[ConsumerRecord] = []

    def take() -> None:
        while (each := handout.next()) is not None:
            taken.append(each)

    thread = threading.Thread(target=take)
    thread.start()
    while len(taken) < 100 * (seed + 1) and thread.is_alive():
        pass
    withdrawn = handout.withdraw([A])
    thread.join()
    assert [each.offset for each in taken] == list(range(withdrawn.get(A, 20_000)))
