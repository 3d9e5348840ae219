"""The silence of sessions, derived from ZooKeeper's lists of connections, and unknown where these are missing."""

import pytest

from kafka_zk.embedded.health import NoAnswer, NotAllowed
from kafka_zk.embedded.ports import AnswerTooLong
from kafka_zk.recorder.web import heartbeats as module
from kafka_zk.recorder.web.heartbeats import HEARD, SILENT, Heartbeats, SessionConnection, parse
from tests.kafka_zk.recorder.web.answering import SetAnswers, answering

LINE = " /127.0.0.1:4{0}[1](queued=0,recved={1},sent=8,sid={0:#x},lop=PING,to=6000,lcxid=0x1,lzxid=0x2,lresp=3)\n"
ASKS = " /127.0.0.1:58742[0](queued=0,recved=1,sent=0)\n\n"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> SetAnswers:
    """Sets the response of each server; a response that is an exception is raised."""
    return answering(monkeypatch, module)


def test_an_answer_is_connections_with_their_sessions() -> None:
    told = LINE.format(16, 7) + ASKS + LINE.format(0xF000000000000001, 9)
    negative = 0xF000000000000001 - (1 << 64)
    assert list(parse(told)) == [SessionConnection(16, 7, 6_000), SessionConnection(negative, 9, 6_000)]
    assert list(parse("")) == []


def told(beats: Heartbeats, at_ms: int) -> int | None:
    """The state of the only session."""
    return beats.tell(beats.look(), at_ms)["heard 0x10"]


def test_a_session_is_silent_after_half_of_its_timeout_and_heard_again(answers: SetAnswers) -> None:
    """The session is silent whether its connection stays open without data or is gone."""
    beats = Heartbeats("h1,h2")
    history = [
        (0, LINE.format(16, 7), None), (2_000, LINE.format(16, 8), HEARD), (5_000, LINE.format(16, 8), HEARD),
        (5_001, LINE.format(16, 8), SILENT), (6_000, "", SILENT), (7_000, LINE.format(16, 1), HEARD),
    ]  # fmt: skip
    for at_ms, answer, state in history:
        answers(h1=ASKS, h2=answer)
        assert told(beats, at_ms) == state, at_ms


def test_a_session_that_two_servers_list_is_silent_too(answers: SetAnswers) -> None:
    """The server that a client has left keeps the connection for a while; neither count changes."""
    beats = Heartbeats("h1,h2")
    left = LINE.format(16, 10)
    history = [
        (0, left, 5, None), (1_000, left, 6, HEARD), (4_000, left, 6, HEARD), (4_001, left, 6, SILENT),
        (5_000, "", 6, SILENT), (6_000, "", 7, HEARD),
    ]  # fmt: skip
    for at_ms, of_h1, count, state in history:
        answers(h1=of_h1, h2=LINE.format(16, count))
        assert told(beats, at_ms) == state, at_ms


def test_nobody_knows_of_a_new_session_until_it_says_something_or_could_have(answers: SetAnswers) -> None:
    """The session may have been silent for a long time when it is first listed."""
    beats = Heartbeats("h1")
    for at_ms, count, state in [(0, 7, None), (3_000, 7, None), (3_001, 7, SILENT), (9_000, 8, HEARD)]:
        answers(h1=LINE.format(16, count))
        assert told(beats, at_ms) == state, at_ms


@pytest.mark.parametrize("trouble", [NotAllowed("it does not allow cons"), NoAnswer("nothing answers")])
def test_while_a_server_does_not_answer_nobody_knows_and_nothing_is_forgotten(
    trouble: Exception, answers: SetAnswers
) -> None:
    """No session has a known state then, because a client may be connected to this server. Afterwards, at any time, a
    session with an unchanged count is silent.
    """
    beats = Heartbeats("h1,h2")
    history: list[tuple[int, str | Exception, dict[str, int | None]]] = [
        (0, LINE.format(16, 7), {"heard 0x10": None}), (1_000, LINE.format(16, 8), {"heard 0x10": HEARD}),
        (2_000, trouble, {"heard 0x10": None}), (3_000, trouble, {}),
        (4_000, LINE.format(16, 8), {"heard 0x10": HEARD}), (4_001, LINE.format(16, 8), {"heard 0x10": SILENT}),
        (5_000, trouble, {"heard 0x10": None}), (99_000, trouble, {}),
        (99_001, LINE.format(16, 8), {"heard 0x10": SILENT}), (99_002, LINE.format(16, 9), {"heard 0x10": HEARD}),
    ]  # fmt: skip
    for at_ms, answer, states in history:
        answers(h1="", h2=answer)
        assert beats.tell(beats.look(), at_ms) == states, at_ms


def test_a_long_timeout_is_waited_for(answers: SetAnswers) -> None:
    """The session is listed throughout, so it is not forgotten, however long it is silent."""
    beats = Heartbeats("h1")
    for at_s in range(300):
        answers(h1=LINE.format(16, min(at_s, 10)).replace("to=6000", "to=200000"))
        assert told(beats, at_s * 1_000) == (None if at_s == 0 else HEARD if at_s <= 110 else SILENT), at_s


def test_sessions_that_are_over_are_told_of_once_more_and_forgotten(answers: SetAnswers) -> None:
    """The sessions are forgotten one minute after they were last listed."""
    beats = Heartbeats("h1")
    history: list[tuple[int, str, dict[str, int | None]]] = [
        (0, LINE.format(16, 7), {"heard 0x10": None}), (40_000, LINE.format(16, 7), {"heard 0x10": SILENT}),
        (99_999, "", {"heard 0x10": SILENT}), (100_000, "", {"heard 0x10": None}), (100_001, "", {}),
    ]  # fmt: skip
    for at_ms, answer, states in history:
        answers(h1=answer)
        assert beats.tell(beats.look(), at_ms) == states, at_ms


@pytest.mark.parametrize("answer", ["".join(LINE.format(each, 1) for each in range(1_001)), AnswerTooLong("too long")])
def test_too_many_are_asked_for_only_once(answer: str | Exception, answers: SetAnswers) -> None:
    beats = Heartbeats("h1")
    answers(h1=answer)
    assert beats.look() is None
    answers(h1=AssertionError("asked once more"))
    assert beats.look() is None
