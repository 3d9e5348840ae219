"""Viewers can read and follow; whatever they send, they can do nothing else, and no one waits for them."""

import gzip
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.logger import eventAsText, globalLogPublisher
from twisted.python.failure import Failure

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web import viewers as module
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.web.viewers import (
    MOST_AT_ONCE,
    MOST_VIEWERS,
    MOST_VIEWERS_OF_HOST,
    NEWS_INTERVAL_S,
    ShareAddress,
    ViewersServer,
)
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Transaction
from tests.kafka_zk.recorder.web.test_presentation import LIVE, SHOWN

TOKEN = "viewers-token"
HOST = "teacher.example"
GET = "GET /{} HTTP/1.1\r\nHost: teacher.example:8088\r\nAccept-Encoding: gzip, deflate\r\n\r\n"
POST = "POST /api-{} HTTP/1.1\r\nHost: teacher.example:8088\r\nX-Kafka-Zk-Token: {}\r\nContent-Length: {}\r\n\r\n{}"
ACT = '{"action":"kill","broker":0}'
HALF_A_CHARACTER = r'[["znode",{"seq":"1","path":"\ud800"}]]'
TOO_MANY = json.dumps([["at", {}]] * (MOST_AT_ONCE + 1), separators=(",", ":"))


class Shared:
    """A page that is shared without a network."""

    def __init__(self) -> None:
        self.recording, self.reactor = Recording(), MemoryReactorClock()
        self.recording.add([], [Transaction(1, 1, 7, (Created("/a", b"1", ephemeral=False),))])
        self.counts: list[int] = []
        self.api = RecordingApi(self.recording)
        address = ShareAddress(HOST, "192.0.2.7")
        self.viewers = ViewersServer(self.api, self._describe, address, TOKEN, self._count)
        self.link = self.viewers.listen(self.reactor, 8088)
        self._site = self.viewers.site(self.reactor)

    def _count(self) -> None:
        self.counts.append(self.viewers.count)

    def _describe(self) -> Document:
        return {"count": self.recording.entries.count, "can_break": True}

    def connect(self, host: str = "192.0.2.1") -> tuple[Any, StringTransport]:
        peer: Any = IPv4Address("TCP", host, 50_000)
        connection, transport = self._site.buildProtocol(peer), StringTransport(peerAddress=peer)
        connection.makeConnection(transport)
        return connection, transport

    def send(self, request: str) -> bytes:
        connection, transport = self.connect()
        connection.dataReceived(request.encode("latin-1"))
        connection.connectionLost(Failure(ConnectionDone()))
        return bytes(transport.value())

    def ask(self, question: str, token: str = TOKEN) -> bytes:
        return self.send(GET.format(f"api-{question}{'&' if '?' in question else '?'}token={token}"))

    def follow(self, host: str = "192.0.2.1") -> StringTransport:
        """A viewer's browser that listens to the news."""
        connection, transport = self.connect(host)
        connection.dataReceived(GET.format(f"api-news?token={TOKEN}").encode())
        return transport

    def fall_asleep(self, follower: StringTransport) -> None:
        producer: Any = follower.producer
        producer.pauseProducing()

    def wake_up(self, follower: StringTransport) -> None:
        producer: Any = follower.producer
        producer.resumeProducing()


@pytest.fixture
def shared() -> Iterator[Shared]:
    shared = Shared()
    yield shared
    shared.viewers.stop()
    shared.recording.close()


def told(transport: StringTransport) -> list[Document]:
    """The summaries that a browser has received."""
    lines = bytes(transport.value()).split(b"data: ")[1:]
    return [json.loads(line.partition(b"\n\n")[0]) for line in lines]


def document(answer: bytes) -> Any:
    head, _, body = answer.partition(b"\r\n\r\n")
    return json.loads(gzip.decompress(body) if b"gzip" in head else body)


def test_the_page_listens_on_the_shared_address_only(shared: Shared) -> None:
    assert [(server[0], server[3]) for server in shared.reactor.tcpServers] == [(8088, "192.0.2.7")]
    assert shared.link.startswith(f"http://{HOST}:") and shared.link.endswith(f"/#token={TOKEN}")


@pytest.mark.parametrize("path", ["break", "present"])
@pytest.mark.parametrize("token", ["", "wrong", TOKEN, "\xff"])
@pytest.mark.parametrize("body", ["", ACT, json.dumps(SHOWN)])
def test_an_act_is_refused_whatever_the_token(shared: Shared, path: str, token: str, body: str) -> None:
    assert b" 403 " in shared.send(POST.format(path, token, len(body), body))
    assert document(shared.ask("recording"))["presented"] is None


def test_saving_the_recording_is_refused(shared: Shared) -> None:
    assert b" 403 " in shared.ask("export?from_ms=0&to_ms=9")


@pytest.mark.parametrize("question", ["configs", "configs?topic=t", "messages?topic=t"])
def test_questions_to_the_live_cluster_are_refused(shared: Shared, question: str) -> None:
    """They are asked with the operator's login. They are not among several queries, either."""
    refused = shared.ask(question)
    assert b" 403 " in refused and b"viewers can only read" in refused
    name = question.partition("?")[0]
    several = document(shared.ask(f'several?asked=[["{name}",%7B"topic":"t"%7D]]'))
    assert several["answers"] == [{"error": f"there is no query {name}"}]


@pytest.mark.parametrize("token", ["", "wrong", "%ff", TOKEN[:-1], TOKEN + "x"])
@pytest.mark.parametrize("question", ["recording", "state", "entries?from_ms=0&to_ms=9", "several", "news", "nothing"])
def test_reading_needs_the_viewers_token(shared: Shared, question: str, token: str) -> None:
    assert b" 403 " in shared.ask(question, token)


@pytest.mark.parametrize("host", ["127.0.0.1:8088", "localhost", "evil.example", "", "teacher.example.evil.example"])
def test_the_page_is_served_under_its_own_name_only(shared: Shared, host: str) -> None:
    assert b" 403 " in shared.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")


@pytest.mark.parametrize("host", ["teacher.example", "teacher.example:8088", "192.0.2.7:8088"])
def test_the_page_is_reached_by_name_and_by_address(shared: Shared, host: str) -> None:
    assert b" 200 " in shared.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")


def test_a_viewer_reads_but_is_offered_no_act(shared: Shared) -> None:
    acts = dict.fromkeys(("can_break", "can_ask", "can_act", "shows_values"), False)
    assert document(shared.ask("recording")) == {"count": 1, **acts, "shared": "viewer", "presented": None}
    assert document(shared.ask("tree?seq=1"))["count"] == 1
    assert b" 400 " in shared.ask("entry?seq=x")


def test_a_client_that_does_not_know_gzip_gets_plain_text(shared: Shared) -> None:
    plain = shared.send(GET.format(f"api-tree?seq=1&token={TOKEN}").replace("Accept-Encoding: gzip, deflate\r\n", ""))
    assert b"Content-Encoding" not in plain and json.loads(plain.partition(b"\r\n\r\n")[2])["count"] == 1


def test_viewers_get_the_presenters_state_and_one_who_comes_late_gets_the_last(shared: Shared) -> None:
    early = shared.follow()
    assert shared.viewers.present(SHOWN) == {"viewers": 1}
    shared.viewers.present(SHOWN)
    shared.viewers.present(LIVE)
    late = shared.follow()
    seen = [each["presented"] for each in told(early)]
    assert seen == [None, {"number": 1, "shown": SHOWN}, {"number": 2, "shown": LIVE}]
    assert [each["presented"] for each in told(late)] == seen[-1:]
    assert shared.counts == [1, 2]


def test_a_viewer_who_reads_nothing_delays_no_one_and_costs_one_state(shared: Shared) -> None:
    asleep, awake = shared.follow(), shared.follow()
    shared.fall_asleep(asleep)
    for seq in range(1_000):
        shared.viewers.present({**LIVE, "seq": seq})
    assert [len(told(each)) for each in (asleep, awake)] == [1, 1_001]
    shared.wake_up(asleep)
    assert told(asleep)[-1]["presented"]["shown"]["seq"] == 999 and len(told(asleep)) == 2


def test_news_of_the_recording_are_told_at_intervals_and_answers_are_computed_once_in_each(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    whole = type(shared.recording.entries).whole

    def counted(entries: Any, seq: int) -> int:
        computed.append(seq)
        return whole(entries, seq)

    monkeypatch.setattr(type(shared.recording.entries), "whole", counted)
    follower = shared.follow()
    for number in range(2, 12):
        shared.recording.add([], [Transaction(number, number, 7, (Created(f"/{number}", b"", ephemeral=False),))])
        shared.viewers.publish()
        for _ in range(40):
            shared.ask("tree?seq=1")
    assert (len(told(follower)), len(computed)) == (1, 1)
    shared.reactor.advance(NEWS_INTERVAL_S)
    assert told(follower)[-1]["count"] == shared.recording.entries.count and len(told(follower)) == 2
    for _ in range(40):
        shared.ask("tree?seq=1")
    assert len(computed) == 2


def several(*asked: Any) -> str:
    return f"several?{urlencode({'asked': json.dumps(asked)})}"


def test_several_queries_in_one_request_have_the_answers_of_single_ones(shared: Shared) -> None:
    asked = [("tree", {"seq": "1"}), ("entry", {"seq": "x"}), ("state", {}), ("secrets", {})]
    tree, entry, state, secrets = document(shared.ask(several(*asked)))["answers"]
    assert tree == {"answer": document(shared.ask("tree?seq=1"))}
    assert entry == document(shared.ask("entry?seq=x")) and list(entry) == ["error"]
    assert state == {"answer": document(shared.ask("state"))}
    assert secrets == {"error": "there is no query secrets"}


@pytest.mark.parametrize(
    "asked",
    ["", "{}", "[1]", '[["tree"]]', '[["tree",{"seq":1}]]', "[" * 5_000, TOO_MANY, HALF_A_CHARACTER],
)
def test_what_is_no_list_of_queries_is_refused(shared: Shared, asked: str) -> None:
    assert b" 400 " in shared.ask(f"several?asked={asked}")


def test_there_is_an_end_to_the_number_of_viewers(shared: Shared) -> None:
    followers = [shared.follow(f"192.0.2.{number}") for number in range(MOST_VIEWERS + 1)]
    assert [b" 503 " in bytes(each.value()) for each in followers] == [False] * MOST_VIEWERS + [True]
    assert shared.viewers.count == MOST_VIEWERS


def test_one_address_serves_a_class_but_does_not_take_the_place_of_all_viewers(shared: Shared) -> None:
    followers = [bytes(shared.follow().value()) for _ in range(MOST_VIEWERS)]
    assert 40 <= sum(b" 200 " in each for each in followers) == MOST_VIEWERS_OF_HOST
    assert b" 503 " in followers[-1] and b"50 pages are open already at your network address" in followers[-1]
    assert b" 200 " in bytes(shared.follow("192.0.2.2").value())


def test_answers_that_one_address_does_not_read_leave_room_for_the_others(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_BYTES", 1_000)
    few = Shared()
    asked = f"GET /api-tree?seq=1&token={TOKEN} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    connections = []
    for host in ["192.0.2.1"] * 10 + ["192.0.2.2"]:
        connection, transport = few.connect(host)
        connection.dataReceived(asked)
        connections.append((connection, bytes(transport.value())))
    refused = [b" 503 " in told for _, told in connections]
    assert refused[0] is False and refused[9:] == [True, False], "the last one is at another address"
    assert b"Retry-After: 2" in connections[9][1] and b"too many viewers" in connections[9][1]
    for connection, _ in connections:
        connection.connectionLost(Failure(ConnectionDone()))
    connection, transport = few.connect()
    connection.dataReceived(asked)
    assert b" 200 " in bytes(transport.value()), "what was read waits no more"
    few.viewers.stop()
    few.recording.close()


def test_a_viewer_with_an_old_link_is_told_to_ask_for_the_new_one(shared: Shared) -> None:
    refused = document(shared.ask("recording", "an-earlier-token"))
    assert refused == {"error": "this link is no longer valid: ask the presenter for the new one"}


def test_no_log_contains_a_token(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if the server has a fault, or refuses a request."""
    logged: list[str] = []

    def observe(event: Any) -> None:
        logged.append(eventAsText(event))

    publisher: Any = globalLogPublisher
    publisher.addObserver(observe)

    def fail(entries: object, seq: int) -> int:
        raise OSError("the disk is gone")

    monkeypatch.setattr(type(shared.recording.entries), "whole", fail)
    try:
        assert b" 500 " in shared.ask("tree?seq=1")
        shared.send(f"PUT /api-break?token={TOKEN} HTTP/1.1\r\nHost: {HOST}\r\n\r\n")
        shared.ask("tree", TOKEN + "x")
    finally:
        publisher.removeObserver(observe)
    text = "\n".join(logged)
    assert "the disk is gone" in text and "refused: 405" in text and TOKEN not in text
