"""A follower of many partitions: the leader examines only some partitions per fetch and misses no change."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica import follower_fetch
from kafka_zk.broker.replica.fetch_session import EVERYTHING_MS
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchResponse
from kafka_zk.protocol.fetch_request import TOPIC_IDS_SINCE, FetchPartition, FetchTopic
from tests.kafka_zk.broker.conftest import batch
from tests.kafka_zk.broker.handlers.data.replicating_leader import VERSION, Leader, Make, make
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import produce, produced

__all__ = ["make"]  # a fixture

PARTITIONS = 20
MAX_WAIT_MS = 300
EPOCH = 4
REPLICAS = {"replicas": [0, 1, 2], "isr": [0, 1, 2]}


class Follower:
    """A follower of all partitions of a topic in a session. ``offsets``: its log ends; ``marks``: the high watermarks
    received; ``epochs``: the leader epochs received.
    """

    def __init__(self, leader: Leader, broker_id: int, topic: str, topic_id: Any, version: int) -> None:
        self._leader, self._broker_id, self._topic, self._version = leader, broker_id, topic, version
        self._named: tuple[str | None, bytes | None] = (
            (None, topic_id.bytes) if version >= TOPIC_IDS_SINCE else (topic, None)
        )
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.epochs = dict.fromkeys(range(PARTITIONS), EPOCH)
        self.marks: dict[int, int] = {}
        self._asked: dict[int, tuple[int, int]] = {}
        self._session_id = self._epoch = 0
        self.waiting: list[FetchResponse] | None = None

    def fetch(self, max_wait_ms: int = MAX_WAIT_MS) -> None:
        """Send what has changed since the last fetch; ``take`` receives the response."""
        wanted = {number: (offset, self.epochs[number]) for number, offset in self.offsets.items()}
        changed = {number: asked for number, asked in wanted.items() if self._asked.get(number) != asked}
        self._asked.update(changed)
        partitions = [
            FetchPartition(number, offset, 1 << 20, epoch, epoch if offset else -1, 0)
            for number, (offset, epoch) in changed.items()
        ]
        name, topic_id = self._named
        self.waiting = answers = list[FetchResponse]()
        sent: Deferred[FetchResponse] = self._leader.send(
            0, self._broker_id, self._version, max_wait_ms=max_wait_ms, session_id=self._session_id,
            session_epoch=self._epoch, topics=[FetchTopic(name, topic_id, partitions)] if partitions else [],
        )  # fmt: skip
        sent.addCallback(answers.append)

    def take(self) -> list[int]:
        """The partitions in the response."""
        assert self.waiting
        [answer] = self.waiting
        self.waiting = None
        assert not answer.error_code
        self._session_id, self._epoch = answer.session_id, self._epoch + 1
        told = [result for topic in answer.topics for result in topic.partitions]
        for result in told:
            assert result.error_code == ErrorCode.NONE
            self.marks[result.partition] = result.high_watermark
            if result.records:
                self.offsets[result.partition] = self._end(result.partition)
        return [result.partition for result in told]

    def _end(self, number: int) -> int:
        log = self._leader.broker.services.replicas.partition(TopicPartition(self._topic, number)).log
        assert log is not None
        return log.log_end_offset


class Followed:
    """A leader of many partitions and its two followers."""

    def __init__(self, leader: Leader, version: int = VERSION, isr: Sequence[int] = (0, 1, 2)) -> None:
        self.leader = leader
        state = {**REPLICAS, "isr": list(isr), "leader_epoch": EPOCH}
        topic_id = self.topic_id = leader.broker.lead("many", PARTITIONS, **state)
        leader.pass_time(10_000)
        self.followers = [Follower(leader, broker_id, "many", topic_id, version) for broker_id in (1, 2)]
        for follower in self.followers:
            follower.fetch(0)
            assert len(follower.take()) == PARTITIONS

    def append(self, number: int) -> None:
        assert produced(self.leader.broker, produce(batch(b"x"), "many", number, acks=1)).error_code == 0

    def high_watermarks(self) -> dict[int, int]:
        replicas = self.leader.broker.services.replicas
        logs = {number: replicas.partition(TopicPartition("many", number)).log for number in range(PARTITIONS)}
        return {number: log.high_watermark for number, log in logs.items() if log is not None}


def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that the leader reads for followers from now on."""
    read: list[int] = []
    reading = follower_fetch.read

    def reads(replicas: Any, tp: TopicPartition, *args: Any, **named: Any) -> Any:
        read.append(tp.partition)
        return reading(replicas, tp, *args, **named)

    monkeypatch.setattr(follower_fetch, "read", reads)
    return read


def test_only_partitions_are_read_where_something_has_happened(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """In addition, each partition is read twice a second."""
    followed = Followed(make())
    follower = followed.followers[0]
    follower.fetch(0)
    assert follower.take() == []
    read = reads(monkeypatch)
    follower.fetch()
    followed.append(7)
    assert (follower.take(), read) == ([7], [7])
    follower.fetch()
    assert read == [7, 7]
    followed.leader.pass_time(MAX_WAIT_MS + 1)
    follower.take()
    read.clear()
    for _ in range(5):
        follower.fetch(0)
        follower.take()
        followed.leader.pass_time(EVERYTHING_MS // 5)
    assert set(read) == set(range(PARTITIONS))
    assert len(read) <= PARTITIONS * (MAX_WAIT_MS + EVERYTHING_MS) / EVERYTHING_MS


def test_who_is_about_to_join_the_isr_is_looked_at_again_when_the_controller_has_answered(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A returning broker waits for the responses to thousands of proposals, and keeps fetching during that time. After
    a refusal its next fetch causes a new proposal.
    """
    leader = make()
    followed = Followed(leader, isr=(0, 2))
    follower = followed.followers[0]
    assert {change.tp.partition for change, _ in leader.asked.changes} == set(range(PARTITIONS))
    read = reads(monkeypatch)
    follower.fetch(0)
    assert (follower.take(), read) == ([], [])
    refused = leader.asked.answer(ErrorCode.INELIGIBLE_REPLICA).tp.partition
    leader.asked.answer()
    proposed_count = len(leader.asked.changes)
    follower.fetch(0)
    follower.take()
    assert refused in read and len(read) <= 2
    assert [change.tp.partition for change, _ in leader.asked.changes[proposed_count:]] == [refused]


@pytest.mark.parametrize("version", [VERSION, 11], ids=["topic ids", "names"])
@pytest.mark.parametrize("hears_first", ["leader", "follower"])
def test_who_has_not_heard_of_a_leader_epoch_yet_is_not_refused_for_that(
    make: Make, version: int, hears_first: str
) -> None:
    """Once both know the leader epoch, the follower's fetches count and return records."""
    followed = Followed(make(), version)

    def leader_hears() -> None:
        assert followed.leader.broker.lead_again("many", followed.topic_id, leader_epoch=EPOCH + 1, **REPLICAS) == 0

    if hears_first == "leader":
        leader_hears()
        followed.append(0)
    for follower in followed.followers:
        if hears_first == "follower":
            follower.epochs[0] = EPOCH + 1
        follower.fetch(0)
        assert follower.take() == []
    if hears_first == "follower":
        leader_hears()
        followed.append(0)
    for follower in followed.followers:
        follower.epochs[0] = EPOCH + 1
        follower.fetch(0)
        assert follower.take() == [0]
        follower.fetch(0)
        follower.take()
    assert followed.high_watermarks()[0] == 1


@pytest.mark.parametrize(
    ("epoch", "code"), [(EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH), (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_who_never_hears_of_a_leader_epoch_is_refused_in_its_turn(make: Make, epoch: int, code: ErrorCode) -> None:
    followed = Followed(make())
    follower = followed.followers[0]
    follower.epochs[0] = epoch
    errors = []
    for _ in range(3):
        follower.fetch(0)
        assert follower.waiting
        [answer] = follower.waiting
        errors += [result.error_code for topic in answer.topics for result in topic.partitions]
        follower.waiting = [answer._replace(topics=[])]
        follower.take()
        followed.leader.pass_time(EVERYTHING_MS // 2)
    assert errors == [code]


@pytest.mark.parametrize("version", [VERSION, 11], ids=["topic ids", "names"])
@pytest.mark.parametrize("seed", range(4))
def test_every_answer_tells_all_that_is_news(make: Make, seed: int, version: int) -> None:
    """Appends, fetches and waits in random order: after each response a follower knows every high watermark, and no
    fetch waits while there are records for its follower.
    """
    random = Random(seed)
    followed = Followed(make(), version)
    for _ in range(300):
        follower = random.choice(followed.followers)
        match random.randrange(4):
            case 0:
                followed.append(random.randrange(PARTITIONS))
            case 1:
                followed.leader.pass_time(random.choice([1, 50, MAX_WAIT_MS]))
            case _ if follower.waiting is None:
                follower.fetch()
        for each in followed.followers:
            if each.waiting:
                each.take()
                assert each.marks == followed.high_watermarks()
            elif each.waiting is not None:
                assert all(each.offsets[number] == each._end(number) for number in range(PARTITIONS))
    for _ in range(4):
        for each in followed.followers:
            if each.waiting is None:
                each.fetch()
            followed.leader.pass_time(MAX_WAIT_MS + 1)
            each.take()
    assert followed.high_watermarks() == followed.followers[0].offsets == followed.followers[1].offsets
