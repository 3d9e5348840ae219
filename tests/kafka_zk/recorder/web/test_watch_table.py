"""The watches of sessions, from ZooKeeper's responses: each is reported once, and withdrawn when it ends; refusals are
reported, not raised.
"""

from functools import partial

import pytest

from kafka_zk.embedded.health import NoAnswer, NotAllowed
from kafka_zk.embedded.ports import AnswerTooLong
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.cluster_events import WatchGone, WatchSeen
from kafka_zk.recorder.web import watch_table as module
from kafka_zk.recorder.web.watch_table import WatchTable, parse
from tests.kafka_zk.recorder.web.answering import SetAnswers, answering

ANSWER = "0x1000\n\t/brokers/ids\n\t/controller\n0xf000000000000001\n\t/kafka/a\n\n"
NAMES = {0x1000: "broker-0", 0x1001: "broker-0", 0x2000: "page"}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> SetAnswers:
    """Sets the response of each server; a response that is an exception is raised."""
    return answering(monkeypatch, module)


def named(name: str, session: int) -> str:
    return name


def told(table: WatchTable) -> list[tuple[str, str, str]]:
    found = table.look()
    assert found is not None
    return [
        (type(each).__name__, each.actor, each.path)
        for each in table.tell(found, lambda each: NAMES[each])
        if isinstance(each, WatchSeen | WatchGone)
    ]


def test_an_answer_is_sessions_with_their_paths() -> None:
    assert list(parse(ANSWER)) == [
        (0x1000, "/brokers/ids"), (0x1000, "/controller"), (0xF000000000000001 - (1 << 64), "/kafka/a")
    ]  # fmt: skip
    assert list(parse("")) == []


def test_watches_are_told_once_and_taken_back(answers: SetAnswers) -> None:
    """The table has the watches at all servers, without the page's own and those outside the chroot."""
    table = WatchTable("h1,h2/kafka", lambda: 0x2000)
    answers(h1="0x1000\n\t/kafka/a\n\t/other\n", h2="0x2000\n\t/kafka/a\n\t/kafka/b\n")
    assert told(table) == [("WatchSeen", "broker-0", "/a")]
    assert told(table) == []
    answers(h1="", h2="0x1000\n\t/kafka/b\n")
    assert told(table) == [("WatchGone", "broker-0", "/a"), ("WatchSeen", "broker-0", "/b")]


def test_the_end_of_an_old_session_takes_back_nothing_that_a_new_one_watches(answers: SetAnswers) -> None:
    """The new session's watch is reported again, so that a recording knows the session of each."""
    table = WatchTable("h1", lambda: None)
    answers(h1="0x1000\n\t/a\n\t/b\n")
    assert told(table) == [("WatchSeen", "broker-0", "/a"), ("WatchSeen", "broker-0", "/b")]
    answers(h1="0x1000\n\t/a\n\t/b\n0x1001\n\t/a\n")
    assert told(table) == [("WatchSeen", "broker-0", "/a")]
    answers(h1="0x1001\n\t/a\n")
    assert told(table) == [("WatchGone", "broker-0", "/b")]


def test_whose_they_are_may_be_known_later(answers: SetAnswers) -> None:
    table, recording = WatchTable("h1", lambda: None), Recording()
    answers(h1="0x1000\n\t/a\n")
    for name in ("session 0x1000", "broker-0"):
        recording.add(table.tell(table.look() or frozenset(), partial(named, name)), [])
        assert recording.entries.watchers(recording.entries.count) == {"/a": [name]}


@pytest.mark.parametrize(
    ("answer", "why"),
    [(NotAllowed("it does not allow wchc"), "does not allow"), (NoAnswer("nothing answers"), "nothing answers")],
)  # fmt: skip
def test_what_cannot_be_known_is_said(answer: str | Exception, why: str, answers: SetAnswers) -> None:
    table = WatchTable("h1", lambda: None)
    answers(h1=answer)
    assert table.look() is None
    assert why in table.misses
    answers(h1=ANSWER)
    assert table.look() and table.misses == ""


def watches_of(session: int, count: int) -> str:
    return f"{session:#x}\n" + "".join(f"\t/{number}\n" for number in range(count))


@pytest.mark.parametrize(
    ("answer", "why"),
    [(watches_of(1, 20_001), "20001 watches"), (AnswerTooLong("wchc at h1 is longer"), "wchc at h1 is longer")],
)
def test_too_many_are_asked_for_only_once(answer: str | Exception, why: str, answers: SetAnswers) -> None:
    """The list would cost the server too much."""
    table = WatchTable("h1", lambda: None)
    answers(h1=answer)
    assert table.look() is None
    assert why in table.misses and "no longer asked" in table.misses
    answers(h1=AssertionError("asked once more"))
    assert table.look() is None
    assert why in table.misses


def test_the_pages_own_watches_are_not_too_many(answers: SetAnswers) -> None:
    """The page watches every znode. Its watches are not taken for those of others while it connects to another server.
    """
    session: list[int | None] = [0x2000]
    table = WatchTable("h1", lambda: session[0])
    answers(h1=watches_of(0x2000, 20_001) + "0x1000\n\t/a\n")
    assert table.look() == frozenset({(0x1000, "/a")})
    session[0] = None
    assert table.look() == frozenset({(0x1000, "/a")})


def test_a_dead_server_hides_only_what_its_own_clients_watch(answers: SetAnswers) -> None:
    table = WatchTable("h1,h2,h3", lambda: None)
    answers(h1="0x1000\n\t/a\n", h2="0x2000\n\t/b\n", h3="\n")
    told(table)
    answers(h1="0x2000\n\t/a\n", h2=NoAnswer("nothing answers wchc at h2"), h3="\n")
    assert told(table) == [
        ("WatchGone", "broker-0", "/a"), ("WatchGone", "page", "/b"), ("WatchSeen", "page", "/a")
    ]  # fmt: skip
    assert table.misses == "the watches of clients of unresponsive servers (nothing answers wchc at h2)"
    answers(h1=NoAnswer("nothing answers wchc at h1"), h2=NoAnswer("nothing"), h3=NoAnswer("nothing"))
    assert table.look() is None
    assert table.misses.startswith("who watches what (nothing answers wchc at h1")
    answers(h1="\n", h2="\n", h3="\n")
    assert told(table) == [("WatchGone", "page", "/a")]
    assert table.misses == ""
