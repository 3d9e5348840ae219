"""Hostile clients send a broker random and mutated frames over real sockets; other clients are not affected.

One round is 500 frames; ten thousand: ``pytest tests/fuzz --rounds 20``. A failure names seed and frame.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.broker.handlers.table import OFFERED_VERSIONS
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch import read_fetch_response
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.produce import (
    PartitionData,
    ProduceRequest,
    TopicData,
    read_produce_response,
    write_produce_request,
)
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.fuzz.frames import TOPICS, FrameSource
from tests.fuzz.target import BROKERS, Outcome, Target

pytestmark = pytest.mark.slow

FRAMES_PER_ROUND = 500
LONGEST_TURN_MS = 50
NEIGHBOUR = "neighbour"
CONTROLLERS = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    target = Target(tmp_path / "logs", (*TOPICS, NEIGHBOUR))
    yield target
    target.close()


class Neighbour:
    """A client that keeps producing and fetching over one connection."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection = target.neighbour
        self.count = 0

    def works(self) -> None:
        """Produce a record, which gets the next offset, and fetch it back."""
        builder = RecordBatchBuilder()
        value = b"record %d" % self.count
        builder.append(1_700_000_000_000, None, value)
        data = [TopicData(NEIGHBOUR, [PartitionData(0, builder.build())])]
        body: Any = write_produce_request(9, ProduceRequest(None, -1, 1000, data))
        answer = read_produce_response(9, self._target.run(self._connection.send_raw(ApiKey.PRODUCE, 9, body)))
        result = answer.topics[0].partitions[0]
        assert (result.error_code, result.base_offset) == (0, self.count)
        wanted = FetchTopic(NEIGHBOUR, None, [FetchPartition(0, self.count, 1 << 20)])
        request = write_fetch_request(11, FetchRequest(0, 1, [wanted]))
        fetched = read_fetch_response(11, self._target.run(self._connection.send_raw(ApiKey.FETCH, 11, [request])))
        records: Any = fetched.topics[0].partitions[0].records
        assert value in bytes(records)
        self.count += 1


def check(outcome: Outcome, what: str) -> None:
    """Check that nothing failed or hung, and that the log has one line for each connection that the broker closed."""
    assert not outcome.failures, f"{what}: {outcome.failures}"
    assert outcome.turn_ms < LONGEST_TURN_MS, f"{what} took {outcome.turn_ms:.0f} ms"
    lines = [line for line in outcome.lines if " closed: " in line]
    assert len(lines) == (outcome.end == "closed"), f"{what}: {outcome}"


def test_frames_of_strangers_disturb_nobody(target: Target, campaign_seed: int) -> None:
    source = FrameSource(campaign_seed, OFFERED_VERSIONS)
    neighbour = Neighbour(target)
    ends: Counter[str] = Counter()
    before: dict[str, int] = {}
    for number in range(FRAMES_PER_ROUND):
        if number == FRAMES_PER_ROUND // 2:
            before = target.alive()
        frame = source.next()
        outcome = target.send(frame)
        check(outcome, f"seed {campaign_seed}, frame {number}: {frame[:200].hex()}")
        ends[outcome.end] += 1
        if number % 10 == 0:
            neighbour.works()
    neighbour.works()
    assert not target.fatal
    assert ends["answered"] > FRAMES_PER_ROUND / 5
    assert ends["closed"] > FRAMES_PER_ROUND / 5
    after = target.alive()
    assert {name: count for name, count in after.items() if count > before[name] + 5} == {}


def test_a_controller_out_of_its_mind_does_not_end_the_broker(
    target: Target, tmp_path: Path, campaign_seed: int
) -> None:
    """Brokers trust their controller, so its requests may spoil partitions, but neither the process nor its files."""
    versions = {key: OFFERED_VERSIONS[key] for key in CONTROLLERS}
    source = FrameSource(campaign_seed, versions)
    for number in range(FRAMES_PER_ROUND // 5):
        frame = source.next()
        outcome = target.send(frame, BROKERS)
        check(outcome, f"seed {campaign_seed}, frame {number}: {frame[:200].hex()}")
    assert not target.fatal
    assert target.broker._logs is not None and target.broker._logs.live_directories
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    assert target.run(target.neighbour.request(ApiKey.API_VERSIONS, version=0)).error_code == 0
