"""How a follower acts on its leader's responses: the decisions, without log, clock and network."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.fetcher_effects import Append, AskOffsets, EpochQuestion, FetchRefused, StartAnew, Truncate
from kafka_zk.broker.replica.fetcher_state import ZERO_ID, FetcherState, ReplicaState
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import EpochEndOffset, FetchedPartition, FetchedTopic, FetchResponse
from kafka_zk.storage.log.leader_epoch_cache import LeaderEpochCache
from tests.storage.helpers import batch

T, U = TopicPartition("t", 0), TopicPartition("u", 0)
T_ID, U_ID = bytes(15) + b"\x01", bytes(15) + b"\x02"
HW = 7


class ModelLog:
    """A log in memory whose records are their epochs. ``path``: where its epochs would be stored."""

    def __init__(self, path: Path, epochs: Sequence[int] = (), start: int = 0, high_watermark: int = 0) -> None:
        self.records: list[tuple[int, object]] = []
        self.first_offset = self.log_start_offset = start
        self.high_watermark = high_watermark
        self.leader_epochs = LeaderEpochCache(str(path))
        for epoch in epochs:
            self.append(epoch)

    @property
    def log_end_offset(self) -> int:
        return self.first_offset + len(self.records)

    def append(self, epoch: int, value: object = None) -> None:
        self.leader_epochs.begin(epoch, self.log_end_offset)
        self.records.append((epoch, value))

    def from_offset(self, offset: int) -> list[tuple[int, object]]:
        return self.records[offset - self.first_offset :]

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def truncate(self, effect: Truncate | StartAnew) -> None:
        if isinstance(effect, StartAnew) or effect.offset < self.first_offset:
            self.records.clear()
            self.first_offset = self.log_start_offset = effect.offset
            self.leader_epochs.clear()
        else:
            del self.records[effect.offset - self.first_offset :]
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)


def fetcher(version: int = 17) -> FetcherState:
    return FetcherState(version, asks_for_epochs=version < 12, max_bytes=100, backoff_s=1)


@pytest.fixture
def log(tmp_path: Path) -> ModelLog:
    """Epoch 0 wrote offsets 0 to 4, epoch 2 offsets 5 to 9."""
    return ModelLog(tmp_path / "epochs", [0] * 5 + [2] * 5, high_watermark=HW)


def fetching(log: ModelLog, version: int = 17, leader_epoch: int = 3) -> FetcherState:
    """A fetcher that fetches T from the log's end."""
    state = fetcher(version)
    state.add(T, T_ID, leader_epoch, log)
    state.session.next_request()
    return state


def asked_for(state: FetcherState) -> list[TopicPartition | None]:
    """The partitions of the next request."""
    request = state.session.next_request()
    return [
        state.tp(topic.topic, topic.topic_id, partition.partition)
        for topic in request.topics
        for partition in topic.partitions
    ]


def test_the_end_of_the_log_and_its_epoch_are_asked_for(log: ModelLog) -> None:
    log.log_start_offset = 4
    state = fetcher()
    state.add(T, T_ID, 3, log)
    [topic] = state.session.next_request().topics
    assert topic == (None, T_ID, [(0, 10, 100, 3, 2, 4, None)])


def test_truncations_are_in_the_order_of_the_partitions(tmp_path: Path) -> None:
    """The order of a set of names would differ between processes."""
    state = fetcher()
    tps = [TopicPartition(topic, number) for topic in ("t", "u", "v", "w") for number in range(4)]
    for tp in reversed(tps):
        state.add(tp, T_ID, 3, ModelLog(tmp_path / f"epochs-{tp}"))
    assert [each.tp for each in state.truncations()[1]] == tps


def test_a_log_without_epochs_is_truncated_to_its_high_watermark_first(tmp_path: Path) -> None:
    """The follower sends no request before that."""
    log = ModelLog(tmp_path / "epochs")
    state = fetcher()
    state.add(T, T_ID, 3, log)
    assert state.truncations() == ([], [Truncate(T, 0)])
    assert asked_for(state) == []
    state.truncated(Truncate(T, 0), log)
    assert state.truncations() == ([], [])
    assert asked_for(state) == [T]


def test_records_are_appended_and_what_follows_them_is_asked_for(log: ModelLog) -> None:
    state = fetching(log)
    records = memoryview(b"\x00" * 61)
    effect = state.answered(T, FetchedPartition(0, 0, 20, 20, 1, records), log, 0)
    assert effect == Append(T, records, 20, 1, None)
    log.append(3)
    state.appended(effect, log)
    [topic] = state.session.next_request().topics
    assert topic.partitions[0][1:5] == (11, 100, 3, 3)
    assert state.max_lag == 9


def test_an_answer_without_records_tells_the_high_watermark(log: ModelLog) -> None:
    state = fetching(log)
    effect = state.answered(T, FetchedPartition(0, 0, 10, 10, 0, b""), log, 0)
    assert effect == Append(T, memoryview(b""), 10, 0, None)
    state.appended(effect, log)
    assert state.partitions[T].lag == 0


@pytest.mark.parametrize("change", ["epoch", "removed", "elsewhere", "delayed"])
def test_an_answer_to_what_is_not_wanted_any_more_changes_nothing(log: ModelLog, change: str) -> None:
    state = fetching(log)
    if change == "epoch":
        state.add(T, T_ID, 4, log)
    elif change == "removed":
        state.remove(T)
    elif change == "elsewhere":
        log.append(3)
        state.add(T, T_ID, 4, log)
    else:
        state.delay(T, 0)
    before = dict(state.partitions)
    assert state.answered(T, FetchedPartition(0, 0, 10, 10, 0, memoryview(b"x" * 61)), log, 0) is None
    assert state.partitions == before


def test_a_log_that_ends_elsewhere_than_asked_is_asked_for_again(log: ModelLog) -> None:
    state = fetching(log)
    log.truncate(Truncate(T, 8))
    assert state.answered(T, FetchedPartition(0, 0, 10, 10, 0, memoryview(b"x" * 61)), log, 0) is None
    assert state.partitions[T].fetch_offset == 8
    assert asked_for(state) == [T]


@pytest.mark.parametrize(
    ("epoch", "end", "expected"),
    [
        (2, 8, Truncate(T, 8)),  # both logs have epoch 2, the leader's with fewer records
        (2, 20, Truncate(T, 10)),
        (0, 3, Truncate(T, 3)),
        (0, 9, Truncate(T, 5)),  # our epoch 0 has fewer records
        (1, 7, Truncate(T, 5, is_complete=False)),  # we do not know the epoch; the one before it ends at 5
        (-1, 6, Truncate(T, 6)),
    ],
)
def test_the_logs_part_where_the_epochs_say(log: ModelLog, epoch: int, end: int, expected: Truncate) -> None:
    """The leader sends the divergence in its response to Fetch or to OffsetForLeaderEpoch. Source: KIP-101, KIP-279."""
    state = fetching(log)
    fetched = FetchedPartition(0, 0, 20, 20, 0, b"", diverging_epoch=EpochEndOffset(epoch, end))
    assert state.answered(T, fetched, log, 0) == expected
    log.truncate(expected)
    state.truncated(expected, log)
    assert state.partitions[T].state is ReplicaState.FETCHING
    assert asked_for(state) == [T]

    old = fetcher(11)
    log = ModelLog(Path(log.leader_epochs._path), [0] * 5 + [2] * 5, high_watermark=HW)
    old.add(T, T_ID, 3, log)
    [question], _ = old.truncations()
    assert question == EpochQuestion(T, 3, 2)
    assert old.epoch_answered(question, 0, EpochEndOffset(epoch, end), log, 0) == expected
    log.truncate(expected)
    old.truncated(expected, log)
    assert (old.partitions[T].state is ReplicaState.FETCHING) is expected.is_complete


def test_an_unknown_epoch_means_the_high_watermark_to_old_protocols(log: ModelLog) -> None:
    state = fetcher(11)
    state.add(T, T_ID, 3, log)
    [question], _ = state.truncations()
    assert state.epoch_answered(question, 0, EpochEndOffset(-1, -1), log, 0) == Truncate(T, HW)


def test_an_epoch_without_a_record_is_forgotten(log: ModelLog) -> None:
    """If the epoch stayed, the leader would report the same divergence forever."""
    log.leader_epochs.begin(3, 10)
    state = fetching(log, leader_epoch=4)
    fetched = FetchedPartition(0, 0, 20, 20, 0, b"", diverging_epoch=EpochEndOffset(2, 10))
    effect = state.answered(T, fetched, log, 0)
    assert effect == Truncate(T, 10)
    log.truncate(effect)
    state.truncated(effect, log)
    assert state.partitions[T].last_fetched_epoch == 2
    assert asked_for(state) == [T]


def test_out_of_range_ahead_of_the_leader_truncates_to_its_end(log: ModelLog) -> None:
    state = fetching(log)
    ask = state.answered(T, FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE), log, 0)
    assert ask == AskOffsets(T, 3)
    assert state.out_of_range(ask, 0, 6, log, 0) == Truncate(T, 6)


def test_out_of_range_behind_the_leader_begins_anew_at_its_start(log: ModelLog) -> None:
    state = fetching(log)
    effect = state.out_of_range(AskOffsets(T, 3), 50, 60, log, 0)
    assert effect == StartAnew(T, 50)
    log.truncate(effect)
    state.truncated(effect, log)
    [topic] = state.session.next_request().topics
    assert topic.partitions[0] == (0, 50, 100, 3, -1, 50, None)


def test_out_of_range_within_the_leaders_log_is_asked_again_later(log: ModelLog) -> None:
    state = fetching(log)
    assert state.out_of_range(AskOffsets(T, 3), 0, 60, log, 0) == FetchRefused(T, ErrorCode.OFFSET_OUT_OF_RANGE, False)
    assert asked_for(state) == []


def test_offsets_of_an_older_leader_epoch_change_nothing(log: ModelLog) -> None:
    state = fetching(log, leader_epoch=4)
    assert state.out_of_range(AskOffsets(T, 3), 50, 60, log, 0) is None
    assert state.offsets_refused(AskOffsets(T, 3), ErrorCode.NOT_LEADER_OR_FOLLOWER, 0) is None
    assert state.epoch_answered(EpochQuestion(T, 3, 2), 0, EpochEndOffset(0, 3), log, 0) is None


def test_an_empty_log_begins_where_the_leaders_first_batch_does(tmp_path: Path) -> None:
    """The batch may begin before the requested offset, and before the leader's log start offset."""
    log = ModelLog(tmp_path / "epochs", start=120)
    state = fetching(log)
    state.truncated(Truncate(T, 120), log)
    state.session.next_request()
    records = memoryview((62).to_bytes(8, "big") + bytes(53))
    assert state.answered(T, FetchedPartition(0, 0, 130, 130, 120, records), log, 0) == Append(T, records, 130, 120, 62)


@pytest.mark.parametrize(
    ("first", "count", "epoch", "is_damaged", "is_cut"),
    [
        (4, 7, 2, False, True),  # the log ends at 10, in epoch 2
        (4, 6, 2, False, False),
        (10, 7, 2, False, False),
        (-1, 17, 2, False, False),
        (4, 7, 3, False, False),
        (4, 7, 2, True, False),
    ],
)
def test_a_log_that_ends_within_a_batch_of_the_leader_is_truncated_to_its_start(
    log: ModelLog, first: int, count: int, epoch: int, is_damaged: bool, is_cut: bool
) -> None:
    """The leader has lost the end of its log, and leads again in the same epoch. Damaged records truncate nothing."""
    state = fetching(log)
    sent = batch(count)
    sent[:8] = first.to_bytes(8, "big", signed=True)
    sent[12:16] = epoch.to_bytes(4, "big")
    sent[-1] ^= is_damaged
    effect = state.answered(T, FetchedPartition(0, 0, 20, 20, 0, memoryview(sent)), log, 0)
    assert effect == (Truncate(T, 4, has_parted=True) if is_cut else Append(T, memoryview(sent), 20, 0, None))


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE])
def test_what_asking_again_does_not_change_ends_the_fetching(log: ModelLog, code: ErrorCode) -> None:
    """Fetching resumes when the controller names a new leader epoch."""
    state = fetching(log)
    refused = state.answered(T, FetchedPartition(0, code), log, 0)
    assert refused == FetchRefused(T, code, True)
    assert T not in state.partitions
    state.add(T, T_ID, 4, log)
    assert asked_for(state) == [T]


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID]
)
def test_a_leader_that_has_not_heard_yet_is_asked_again_soon(log: ModelLog, code: ErrorCode) -> None:
    """The pauses grow up to the backoff while the error repeats; a successful response resets them."""
    state = fetching(log)
    now_s, waits = 10.0, []
    for _ in range(8):
        state.session.next_request()
        state.session.take_response(FetchResponse([], session_id=5))
        assert state.answered(T, FetchedPartition(0, code), log, now_s) == FetchRefused(T, code, False)
        until_s = state.wake(now_s)
        assert until_s is not None
        waits.append(round(until_s - now_s, 3))
        now_s = until_s
        state.wake(now_s)
    assert waits == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]
    state.session.next_request()
    state.session.take_response(FetchResponse([], session_id=5))
    effect = state.answered(T, FetchedPartition(0, high_watermark=0), log, now_s)
    assert isinstance(effect, Append)
    state.appended(effect, log)
    assert state.partitions[T].waited == 0


def test_a_leader_may_not_have_heard_for_days(log: ModelLog) -> None:
    """The follower then fetches once per backoff."""
    state = fetching(log)
    now_s = 10.0
    for _ in range(2_000):
        state.session.next_request()
        state.session.take_response(FetchResponse([], session_id=5))
        state.answered(T, FetchedPartition(0, ErrorCode.UNKNOWN_TOPIC_ID), log, now_s)
        until_s = state.wake(now_s)
        assert until_s is not None and until_s - now_s <= 1
        now_s = until_s
        state.wake(now_s)


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INCONSISTENT_TOPIC_ID])
def test_other_errors_are_waited_for(log: ModelLog, code: ErrorCode) -> None:
    """The follower omits the partition during the backoff; other partitions are fetched."""
    state = fetching(log)
    state.add(U, U_ID, 3, log)
    state.session.next_request()
    state.session.take_response(FetchResponse([], session_id=5))
    assert state.answered(T, FetchedPartition(0, code), log, 10.0) == FetchRefused(T, code, False)
    assert state.wake(10.5) == 11.0
    assert None not in asked_for(state)
    assert list(state.session.wanted) == [(U_ID, 0)]
    assert state.wake(11.0) is None
    assert list(state.session.wanted) == [(U_ID, 0), (T_ID, 0)]


def test_the_same_leader_epoch_again_changes_nothing(log: ModelLog) -> None:
    state = fetching(log)
    state.delay(T, 0)
    state.add(T, T_ID, 3, log)
    assert state.wake(0.5) == 1.0


def test_a_topic_without_id_is_asked_for_by_name_and_so_are_all(log: ModelLog) -> None:
    state = fetching(log)
    assert state.version == 17
    state.session.take_response(FetchResponse([FetchedTopic(None, T_ID, [FetchedPartition(0)])], session_id=5))
    state.add(U, ZERO_ID, 3, log)
    assert state.version == 12
    request = state.session.next_request()
    assert request[:2] == (5, 0)
    assert [topic[:2] for topic in request.topics] == [("t", None), ("u", None)]
    assert state.tp("u", None, 0) == U
    state.remove(U)
    assert state.version == 17
    assert [topic[:2] for topic in state.session.next_request().topics] == [(None, T_ID)]


@pytest.mark.slow
@pytest.mark.parametrize("version", [11, 17])
def test_after_any_elections_a_follower_ends_with_the_log_of_its_leader(tmp_path: Path, version: int) -> None:
    """Elections may be unclean, leaders may write nothing, and followers may stop in the middle of a truncation."""
    for seed in range(200):
        random = Random(seed)
        logs = [ModelLog(tmp_path / f"{seed}-{number}") for number in range(3)]
        written = 0
        for leader_epoch in range(random.randrange(2, 8)):
            leader = random.randrange(3)
            logs[leader].leader_epochs.begin(leader_epoch, logs[leader].log_end_offset)
            for _ in range(random.choice([0, 0, 1, 2, 5])):
                logs[leader].append(leader_epoch, written)
                written += 1
            if random.random() < 0.2:
                start = random.randint(logs[leader].log_start_offset, logs[leader].log_end_offset)
                logs[leader].log_start_offset = start
                logs[leader].leader_epochs.truncate_from_start(start)
            for follower in range(3):
                if follower != leader:
                    replicate(logs[follower], logs[leader], leader_epoch, version, random.choice([0, 1, 2, 3, 100]))
        leader_epoch += 1
        logs[0].leader_epochs.begin(leader_epoch, logs[0].log_end_offset)
        for follower in (1, 2):
            replicate(logs[follower], logs[0], leader_epoch, version, 100)
            assert logs[follower].log_end_offset == logs[0].log_end_offset, f"seed {seed}"
            start = logs[follower].log_start_offset
            assert start >= logs[0].log_start_offset, f"seed {seed}"
            assert logs[follower].from_offset(start) == logs[0].from_offset(start), f"seed {seed}"


def replicate(follower: ModelLog, leader: ModelLog, leader_epoch: int, version: int, rounds: int) -> None:
    """Fetch ``rounds`` times from the leader, at most two records per response."""
    state = FetcherState(version, asks_for_epochs=version < 12, max_bytes=100, backoff_s=0)
    state.add(T, T_ID, leader_epoch, follower)
    for _ in range(rounds):
        state.wake(1)
        questions, here = state.truncations()
        for truncation in here:
            follower.truncate(truncation)
            state.truncated(truncation, follower)
        for question in questions:
            end = EpochEndOffset(*leader.end_offset_for_epoch(question.epoch))
            effect = state.epoch_answered(question, 0, end, follower, 0)
            assert isinstance(effect, Truncate)
            follower.truncate(effect)
            state.truncated(effect, follower)
        if not state.session.wanted:
            continue
        state.session.next_request()
        carry_out(state, follower, leader, answer(state, leader))


def answer(state: FetcherState, leader: ModelLog) -> FetchedPartition:
    """The response of a leader. Source: Partition.readRecords@3.9."""
    asked = state.session.asked(T_ID, 0) or state.session.asked("t", 0)
    assert asked is not None
    fetched = FetchedPartition(0, 0, leader.log_end_offset, -1, leader.log_start_offset, b"")
    if asked.last_fetched_epoch >= 0 and state.version >= 12:
        end = EpochEndOffset(*leader.end_offset_for_epoch(asked.last_fetched_epoch))
        if end.end_offset < 0:
            return FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE)
        if end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
            return fetched._replace(diverging_epoch=end)
    if not leader.log_start_offset <= asked.fetch_offset <= leader.log_end_offset:
        return FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE)
    count = min(2, leader.log_end_offset - asked.fetch_offset)
    return fetched._replace(records=memoryview(asked.fetch_offset.to_bytes(8, "big") * count))


def carry_out(state: FetcherState, follower: ModelLog, leader: ModelLog, fetched: FetchedPartition) -> None:
    effect = state.answered(T, fetched, follower, 0)
    if isinstance(effect, AskOffsets):
        effect = state.out_of_range(effect, leader.log_start_offset, leader.log_end_offset, follower, 0)
    if isinstance(effect, Truncate | StartAnew):
        follower.truncate(effect)
        state.truncated(effect, follower)
    elif isinstance(effect, Append):
        for _ in range(len(effect.records) // 8):
            follower.append(*leader.records[follower.log_end_offset - leader.first_offset])
        follower.high_watermark = min(effect.high_watermark, follower.log_end_offset)
        start = min(effect.log_start_offset, follower.high_watermark)
        follower.log_start_offset = max(follower.log_start_offset, start)
        state.appended(effect, follower)
