"""Hostile clients send a broker group requests over real sockets: a good group beside theirs continues to commit, and
no request in their groups waits indefinitely.

One round is 100 frames; fifty thousand: ``pytest tests/fuzz/test_group_frames.py --rounds 500``.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.live_group import now_of
from kafka_zk.broker.group.loading import LoadedPartition
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.group.requests import Now
from kafka_zk.broker.group.states import GroupState
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.fuzz.frames import TOPICS
from tests.fuzz.group_frames import METADATA, GroupFrameSource
from tests.fuzz.target import Target
from tests.fuzz.test_frames import check

pytestmark = pytest.mark.slow

FRAMES_PER_ROUND = 100
FAR_MS = 2**33
GOOD = "good"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    target = Target(
        tmp_path / "logs", TOPICS, group_initial_rebalance_delay_ms="0", offsets_topic_num_partitions="1"
    )
    yield target
    target.close()


class GoodMember:
    """The only member of its group: it joins once, and keeps committing over one connection."""

    def __init__(self, target: Target) -> None:
        self._target = target
        while self._ask(ApiKey.FIND_COORDINATOR, 0, key=GOOD).error_code:
            target.reactor.turn()
        request = codec.request(ApiKey.JOIN_GROUP)
        protocols = [request.JoinGroupRequestProtocol(name="range", metadata=METADATA)]
        joined = self._ask(
            ApiKey.JOIN_GROUP, 3, group_id=GOOD, session_timeout_ms=1_800_000, rebalance_timeout_ms=60_000,
            member_id="", protocol_type="consumer", protocols=protocols,
        )  # fmt: skip
        self._member = {
            "group_id": GOOD, "member_id": joined.member_id, "generation_id": joined.generation_id,
            "group_instance_id": None,
        }  # fmt: skip
        own = codec.request(ApiKey.SYNC_GROUP).SyncGroupRequestAssignment
        synced = self._ask(
            ApiKey.SYNC_GROUP, 3, **self._member, assignments=[own(member_id=joined.member_id, assignment=b"all")]
        )
        assert (joined.error_code, synced.error_code, synced.assignment) == (0, 0, b"all")
        self.committed = 0

    def _ask(self, api_key: ApiKey, version: int, **fields: Any) -> Any:
        return self._target.run(self._target.neighbour.request(api_key, version=version, **fields))

    def works(self) -> None:
        """Its generation stays valid, and its commits are stored."""
        assert self._ask(ApiKey.HEARTBEAT, 3, **self._member).error_code == 0
        self.committed += 1
        topic = codec.request(ApiKey.OFFSET_COMMIT).OffsetCommitRequestTopic
        partition = topic.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.committed, committed_leader_epoch=-1, committed_metadata=""
        )
        member = {**self._member, "generation_id_or_member_epoch": self._member["generation_id"]}
        del member["generation_id"]
        answer = self._ask(ApiKey.OFFSET_COMMIT, 7, **member, topics=[topic(name=TOPICS[0], partitions=[partition])])
        assert [each.partitions[0].error_code for each in answer.topics] == [0]
        asked = codec.request(ApiKey.OFFSET_FETCH).OffsetFetchRequestTopic(name=TOPICS[0], partition_indexes=[0])
        fetched = self._ask(ApiKey.OFFSET_FETCH, 5, group_id=GOOD, topics=[asked])
        assert fetched.topics[0].partitions[0].committed_offset == self.committed


def members(target: Target) -> list[tuple[str, int]]:
    """The members of the strangers' groups, including ids that have not joined yet."""
    groups = [live.group for live in target.broker.services.coordinator._manager.groups.values()]
    return [
        (member_id, group.generation_id)
        for group in groups
        if group.group_id != GOOD
        for member_id in (*group.members.ids, *group.members.pending)
    ]


def come_to_rest(target: Target) -> None:
    """Let time pass for the strangers' groups without further requests: no member may stay in them."""
    manager = target.broker.services.coordinator._manager
    now = now_of(target.broker.services.clock)
    hostile = [live for live in manager.groups.values() if live.group.group_id != GOOD]
    for turn in range(1, 8):
        for live in hostile:
            if live.group.state is not GroupState.DEAD:
                live.carry_out(live.group.tick(Now(now.monotonic_ms + turn * FAR_MS, now.wall_ms)))
    for live in hostile:
        assert live.group.state in (GroupState.EMPTY, GroupState.DEAD), live.group.group_id
        assert not len(live.group.members) and not live.group.members.pending
    assert len(manager.replies) == 0


def test_hostile_group_requests_disturb_no_other_group(target: Target, campaign_seed: int) -> None:
    source = GroupFrameSource(campaign_seed, lambda: members(target))
    good = GoodMember(target)
    ends: Counter[str] = Counter()
    for number in range(FRAMES_PER_ROUND):
        frame = source.next()
        outcome = target.send(frame)
        check(outcome, f"seed {campaign_seed}, frame {number}: {frame[:200].hex()}")
        ends[outcome.end] += 1
        if number % 10 == 0:
            good.works()
    assert ends["answered"] > FRAMES_PER_ROUND / 3
    assert not target.fatal
    come_to_rest(target)
    good.works()
    assert target.broker.parts.memory.used_bytes == 0
    loaded = LoadedPartition()
    list(loaded.load_steps(target.broker.services.replicas, TopicPartition(OFFSETS_TOPIC, 0), 1 << 20))
    assert (loaded.skipped_count, loaded.first_skipped) == (0, "")
