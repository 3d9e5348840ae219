"""A partition with two replicas and a remote log, in memory, driven by the pure cores. Every record has one byte.

Each replica keeps its whole history aside, and ``check`` compares it with what a reader would get.
"""

import dataclasses
from bisect import bisect_right
from random import Random
from uuid import UUID

from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.tiered import epoch_lineage, local_retention
from kafka_zk.storage.tiered.auxiliary_state import (
    auxiliary_log_start,
    auxiliary_segment,
    auxiliary_start,
    epoch_before,
    epochs_before,
)
from kafka_zk.storage.tiered.copy_selection import CopyCandidate, segments_to_copy
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.remote_retention import remote_deletion
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)
from kafka_zk.storage.tiered.segment_tasks import (
    CopyObjects,
    RemoveObjects,
    SegmentCopy,
    SegmentDeletion,
    TaskEvent,
    WriteMetadata,
)
from kafka_zk.storage.tiered.tiered_replica import LocalSegment, TieredReplica
from tests.storage.tiered.segments import T

RETENTION_BYTES, LOCAL_RETENTION_BYTES = 60, 15
COPY_MS = 20
CONFIG = dataclasses.replace(
    LogConfig(), retention_ms=-1, retention_bytes=RETENTION_BYTES, local_retention_bytes=LOCAL_RETENTION_BYTES
)


class Replica:
    """``history``: (epoch, content) of each offset from 0 on. The offsets from ``bases[0]`` on are local."""

    def __init__(self) -> None:
        self.history: list[tuple[int, int]] = []
        self.lineage: list[tuple[int, int]] = []
        self.bases = [0]
        self.log_start = 0

    @property
    def end(self) -> int:
        return len(self.history)

    @property
    def local_start(self) -> int:
        return max(self.log_start, self.bases[0])

    def snapshot(self) -> TieredReplica:
        ends = [*self.bases[1:], self.end]
        segments = [LocalSegment(base, end, end - base, 0) for base, end in zip(self.bases, ends, strict=True)]
        return TieredReplica(self.lineage, self.log_start, segments)

    def begin_epoch(self, epoch: int) -> None:
        if not self.lineage or self.lineage[-1][0] < epoch:
            self.lineage = [entry for entry in self.lineage if entry[1] < self.end]
            self.lineage.append((epoch, self.end))

    def append(self, epoch: int, content: int) -> None:
        self.begin_epoch(epoch)
        self.history.append((epoch, content))

    def roll(self) -> None:
        if self.bases[-1] < self.end:
            self.bases.append(self.end)

    def truncate(self, end: int) -> None:
        del self.history[end:]
        self.bases = [base for base in self.bases if base <= end] or [end]
        self.lineage = [entry for entry in self.lineage if entry[1] < end]
        self.log_start = min(self.log_start, end)

    def start_log_at(self, offset: int) -> None:
        """Move the log start offset as the broker does: the first epoch then begins there."""
        if offset <= self.log_start:
            return
        self.log_start = offset
        at = bisect_right(self.lineage, offset, key=lambda entry: entry[1])
        if at:
            self.lineage[:at] = [(self.lineage[at - 1][0], offset)]

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The response to OffsetForLeaderEpoch."""
        at = bisect_right(self.lineage, epoch, key=lambda entry: entry[0])
        if at == len(self.lineage):
            return (epoch, self.end) if self.lineage and self.lineage[-1][0] == epoch else (-1, -1)
        return self.lineage[at - 1][0] if at else epoch, self.lineage[at][1]

    def restart(self, start: int, history: list[tuple[int, int]], lineage: list[tuple[int, int]]) -> None:
        self.history, self.lineage, self.bases, self.log_start = history[:start], lineage, [start], start


class TieredWorld:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.leader, self.follower = Replica(), Replica()
        self.epoch = self.content = self.now_ms = 0
        self.is_in_sync = True
        self.remote = RemotePartitionLog()
        self.objects: dict[UUID, dict[int, int]] = {}
        self.checkpoints: dict[UUID, list[tuple[int, int]]] = {}
        self.bootstrap_count = 0
        self._segment_count = 0
        self._stopped_until_ms = 0

    def step(self) -> None:
        self.now_ms += 1
        operations = [
            self.append, self.append, self.roll, self.copy, self.copy, self.replicate, self.replicate,
            self.delete_local, self.delete_remote, self.elect, self.lag, self.replace_follower,
        ]  # fmt: skip
        weights = [6, 6, 6, 6, 6, 6, 6, 4, 4, 1, 1, 1]
        self.random.choices(operations, weights)[0]()
        self.check()

    # -- what happens -------------------------------------------------------------------------------------------------

    def append(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            self.content += 1
            self.leader.append(self.epoch, self.content)

    def roll(self) -> None:
        self.random.choice([self.leader, self.follower]).roll()

    def lag(self) -> None:
        """The follower stops for some time and leaves the ISR."""
        self.is_in_sync = False
        self._stopped_until_ms = self.now_ms + self.random.randint(5, 25)

    def replace_follower(self) -> None:
        self.follower, self.is_in_sync = Replica(), False

    def elect(self) -> None:
        """Elect the follower, uncleanly if it is not in sync, which is rare."""
        if not self.is_in_sync and (not self.follower.end or self.random.random() < 0.7):
            return
        self.epoch += 1
        if self.random.random() < 0.5:
            self.follower.roll()
        self.leader, self.follower = self.follower, self.leader
        leader = self.leader
        if self.random.random() < 0.5:  # brokers, Kafka's and ours, do this, but may fail before the epoch is durable
            leader.begin_epoch(self.epoch)
        leader.start_log_at(
            epoch_lineage.first_readable_offset(self.remote, leader.lineage, leader.log_start, leader.local_start)
        )
        self.is_in_sync = False

    @property
    def last_stable_offset(self) -> int:
        return min(self.leader.end, self.follower.end) if self.is_in_sync else self.leader.end

    def replicate(self) -> None:
        if self.now_ms < self._stopped_until_ms:
            return
        leader, follower = self.leader, self.follower
        common = 0
        while common < min(leader.end, follower.end) and leader.history[common] == follower.history[common]:
            common += 1
        if common < follower.end:
            if common < follower.local_start:
                follower.restart(0, [], [])
            else:
                follower.truncate(common)
        if follower.end < leader.log_start:
            follower.restart(leader.log_start, leader.history, [])
        if follower.end < leader.local_start:
            self._bootstrap()
        for epoch, content in leader.history[follower.end :]:
            follower.append(epoch, content)
        follower.start_log_at(leader.log_start)
        self.is_in_sync = True

    def _bootstrap(self) -> None:
        leader, start = self.leader, self.leader.local_start
        at = bisect_right(leader.lineage, start, key=lambda entry: entry[1])
        local_epoch = leader.lineage[at - 1][0]
        epoch = epoch_before(start, local_epoch, *leader.end_of_epoch(local_epoch - 1))
        segment = auxiliary_segment(self.remote, epoch, start)
        assert segment is not None, f"no segment has {start - 1} of epoch {epoch}"
        begins = auxiliary_start(segment, start, *leader.end_of_epoch(segment.leader_epochs[-1][0]))
        lineage = epochs_before(self.checkpoints[segment.segment_id.id], begins.start_offset)
        self.follower.restart(begins.start_offset, leader.history, lineage)
        self.follower.log_start = auxiliary_log_start(lineage, leader.log_start)
        self.bootstrap_count += 1

    def copy(self) -> None:
        leader = self.leader
        for candidate in segments_to_copy(self.remote, leader.snapshot(), self.last_stable_offset)[:1]:
            self._run(SegmentCopy(self._segment(candidate), self.now_ms + COPY_MS))

    def _segment(self, candidate: CopyCandidate) -> RemoteLogSegmentMetadata:
        self._segment_count += 1
        base, following, size_bytes, _ = candidate.segment
        segment_id = RemoteLogSegmentId(T, UUID(int=self._segment_count))
        started = RemoteLogSegmentState.COPY_SEGMENT_STARTED
        return RemoteLogSegmentMetadata(
            segment_id, base, following - 1, 0, self.now_ms, candidate.leader_epochs, size_bytes, None, started
        )

    def delete_local(self) -> None:
        replica = self.random.choice([self.leader, self.follower])
        found = local_retention.local_deletion(self.remote, replica.snapshot(), CONFIG, self.now_ms)
        if found.rolls:
            replica.roll()
        del replica.bases[: found.segment_count]

    def delete_remote(self) -> None:
        leader = self.leader
        plan = remote_deletion(self.remote, leader.snapshot(), CONFIG, (), self.now_ms - COPY_MS, self.now_ms)
        if plan.log_start_offset > leader.log_start:
            assert leader.end - plan.log_start_offset >= RETENTION_BYTES, "retention deleted too much"
        leader.start_log_at(plan.log_start_offset)
        for segment in plan.segments:
            self._run(SegmentDeletion(segment))
            left = self.remote.segments.get(segment.segment_id.id)
            if left is not None and left.state is not RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
                break

    def _run(self, task: SegmentCopy | SegmentDeletion) -> None:
        """Run a task, which may fail at each step or be forgotten by a broker that dies."""
        effect = task.step(TaskEvent.BEGUN, self.now_ms)
        while effect is not None:
            fate = self.random.random()
            if fate < 0.05:
                return
            event = TaskEvent.STEP_FAILED
            if isinstance(effect, WriteMetadata):
                if fate > 0.1:
                    event = TaskEvent.WRITTEN
                if fate > 0.075:  # a failed write may have been applied
                    assert self.remote.apply(effect.record), "an illegal transition"
            elif isinstance(effect, CopyObjects):
                event = self._copy_objects(effect.segment, fails=fate < 0.15)
            else:
                assert isinstance(effect, RemoveObjects)
                self.objects.pop(effect.segment.segment_id.id, None)
                event = TaskEvent.REMOVED
            effect = task.step(event, self.now_ms)

    def _copy_objects(self, segment: RemoteLogSegmentMetadata, *, fails: bool) -> TaskEvent:
        if fails:
            return TaskEvent.STEP_FAILED
        offsets = range(segment.start_offset, segment.end_offset + 1)
        key = segment.segment_id.id
        self.objects[key] = {offset: self.leader.history[offset][1] for offset in offsets}
        self.checkpoints[key] = [entry for entry in self.leader.lineage if entry[1] <= segment.end_offset]
        return TaskEvent.COPIED

    # -- the judge ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Each offset of the leader, and of a follower in sync, is local or can be read from remote storage, once."""
        self._check_replica(self.leader)
        if self.is_in_sync:
            self._check_replica(self.follower)

    def _check_replica(self, replica: Replica) -> None:
        assert replica.local_start <= replica.end, f"the log ends at {replica.end}, before {replica.local_start}"
        offset = max(replica.log_start, self.leader.log_start)  # the follower learns of it later
        for extent in epoch_lineage.extents(self.remote, replica.lineage, offset, replica.local_start):
            assert extent.first == offset, f"{offset} to {extent.first - 1} are lost"
            stored = self.objects.get(extent.segment.segment_id.id)
            assert stored is not None, f"the objects of {extent} are deleted"
            found = epoch_lineage.locate(self.remote, replica.lineage, extent.first, replica.end)
            assert found is not None and found.last >= extent.last
            for offset in range(extent.first, found.last + 1):
                assert (replica.history[offset][1] if offset < replica.end else None) == stored[offset], (
                    f"another record at {offset}"
                )
            offset = extent.last + 1
        assert offset >= replica.local_start, f"{offset} to {replica.local_start - 1} are lost"
