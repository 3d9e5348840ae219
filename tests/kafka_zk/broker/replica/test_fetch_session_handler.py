"""The fetching side of incremental fetch sessions, tested against the responding side."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.broker.replica.fetch_session import FetchSessions, Wanted
from kafka_zk.broker.replica.fetch_session_handler import FetchSessionHandler, SessionRequest
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition, FetchedTopic, FetchResponse
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, read_fetch_request, write_fetch_request

TOPIC = bytes(15) + b"\x07"


def partition(number: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(number, offset, 1024, 3, 2, 0)


def response(*partitions: int, session_id: int = 0, error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    topics = [FetchedTopic("t", None, [FetchedPartition(number) for number in partitions])] if partitions else []
    return FetchResponse(topics, 0, error, session_id)


def in_session(*partitions: int) -> FetchSessionHandler:
    """A handler whose first request opened session 9."""
    handler = FetchSessionHandler()
    for number in partitions:
        handler.want("t", partition(number))
    assert handler.next_request()[:2] == (0, 0)
    assert handler.take_response(response(*partitions, session_id=9))
    return handler


def listed(request: SessionRequest) -> list[tuple[int, int]]:
    return [(asked.partition, asked.fetch_offset) for topic in request.topics for asked in topic.partitions]


def forgotten(request: SessionRequest) -> list[int]:
    return [number for topic in request.forgotten_topics for number in topic.partitions]


def test_after_the_first_request_only_changes_are_sent() -> None:
    """The request has moved, new and forgotten partitions; it is empty if nothing changed."""
    handler = in_session(0, 1, 2)
    handler.want("t", partition(1, 5))
    handler.want("t", partition(3))
    handler.forget("t", 0)
    request = handler.next_request()
    assert request[:2] == (9, 1)
    assert listed(request) == [(1, 5), (3, 0)]
    assert forgotten(request) == [0]
    assert handler.take_response(response(session_id=9))
    assert handler.next_request() == SessionRequest(9, 2, [], [])


def test_a_change_that_was_taken_back_is_not_sent() -> None:
    handler = in_session(0)
    handler.want("t", partition(0, 5))
    handler.want("t", partition(0))
    handler.want("t", partition(1))
    handler.forget("t", 1)
    assert handler.next_request() == SessionRequest(9, 1, [], [])


def test_what_was_asked_of_a_partition_is_known_until_the_next_request() -> None:
    """The request stays known even if the partition has changed or is forgotten by the time of the response."""
    handler = in_session(0, 1)
    handler.next_request()
    handler.want("t", partition(0, 5))
    handler.forget("t", 1)
    assert handler.asked("t", 0) == partition(0)
    assert handler.asked("t", 1) == partition(1)
    handler.next_request()
    assert handler.asked("t", 0) == partition(0, 5)
    assert handler.asked("t", 1) is None


@pytest.mark.parametrize(
    ("error", "next_session"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),  # without a session there is nothing to close
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 9),
    ],
)
def test_after_an_error_everything_is_asked_for_again(error: ErrorCode, next_session: int) -> None:
    handler = in_session(0, 1)
    handler.want("t", partition(1, 5))
    handler.next_request()
    assert not handler.take_response(response(error=error))
    request = handler.next_request()
    assert request[:2] == (next_session, 0)
    assert listed(request) == [(0, 0), (1, 5)]


def test_after_a_lost_answer_everything_is_asked_for_again() -> None:
    handler = in_session(0)
    handler.want("t", partition(0, 5))
    handler.next_request()
    handler.failed()
    request = handler.next_request()
    assert request[:2] == (9, 0)
    assert listed(request) == [(0, 5)]


def test_without_a_session_every_request_is_a_full_one() -> None:
    handler = FetchSessionHandler()
    handler.want("t", partition(0))
    for _ in range(3):
        assert listed(handler.next_request()) == [(0, 0)]
        assert handler.take_response(response(0))


def test_the_broker_may_end_the_session_with_an_answer() -> None:
    handler = in_session(0)
    handler.next_request()
    assert handler.take_response(response(session_id=0))
    assert handler.next_request()[:2] == (0, 0)


@pytest.mark.parametrize("answered", [(), (0,), (0, 1, 2)])
def test_a_full_answer_has_the_partitions_that_were_asked_for(answered: tuple[int, ...]) -> None:
    handler = FetchSessionHandler()
    handler.want("t", partition(0))
    handler.want("t", partition(1))
    handler.next_request()
    assert not handler.take_response(response(*answered, session_id=9))
    assert handler.next_request()[:2] == (0, 0)


@pytest.mark.parametrize("answer", [response(5, session_id=9), response(0, session_id=10)])
def test_an_incremental_answer_is_of_the_session(answer: FetchResponse) -> None:
    handler = in_session(0)
    handler.next_request()
    assert not handler.take_response(answer)
    assert handler.next_request()[:2] == (9, 0)


def test_the_epoch_wraps_to_one() -> None:
    handler = in_session(0)
    handler._epoch = 0x7FFFFFFF
    assert handler.next_request().session_epoch == 0x7FFFFFFF
    assert handler.take_response(response(session_id=9))
    assert handler.next_request().session_epoch == 1


_EVENTS = ["exchange", "lose request", "lose answer", "restart broker"]
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.integers(0, 4), st.integers(0, 3)),
        st.tuples(st.just("forget"), st.integers(0, 4), st.just(0)),
        st.tuples(st.sampled_from(_EVENTS), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(_STEPS, st.sampled_from([12, 17]))
def test_the_broker_always_reads_what_is_wanted(steps: list[tuple[str, int, int]], version: int) -> None:
    """Whatever is lost on the way, a successful exchange covers exactly the wanted partitions."""
    ids = count(1)
    broker = FetchSessions(2, ids.__next__)
    handler = FetchSessionHandler()
    topic: str | bytes = TOPIC if version >= 13 else "t"
    for step, number, offset in steps:
        if step == "want":
            handler.want(topic, partition(number, offset))
        elif step == "forget":
            handler.forget(topic, number)
        elif step == "restart broker":
            broker = FetchSessions(2, ids.__next__)
        elif handler.wanted:
            request = handler.next_request()
            if step == "lose request":
                handler.failed()
                continue
            answer, read = _answer(broker, version, request)
            if step == "lose answer":
                handler.failed()
            elif handler.take_response(answer):
                assert read == handler.wanted
                assert bool(answer.session_id) is handler.is_incremental


def _answer(broker: FetchSessions, version: int, request: SessionRequest) -> tuple[FetchResponse, Wanted]:
    """The broker's response, and the partitions that it read."""
    sent = FetchRequest(
        0, 1, request.topics, session_id=request.session_id, session_epoch=request.session_epoch,
        forgotten_topics=request.forgotten_topics,
    )  # fmt: skip
    received = read_fetch_request(version, memoryview(write_fetch_request(version, sent)))
    try:
        context = broker.open(received, version >= 13, 0)
    except ApiError as error:
        return FetchResponse([], 0, error.code), {}
    read = dict(context.wanted)
    fetched = [(topic, FetchedPartition(number, 0, asked.fetch_offset)) for (topic, number), asked in read.items()]
    return context.response(fetched), read
