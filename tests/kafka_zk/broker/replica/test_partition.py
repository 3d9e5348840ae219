"""A partition's roles, its responses in each of them, and its effects on its log."""

from itertools import product
from pathlib import Path

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import (
    TRANSITIONS,
    IllegalRoleChange,
    LeaderAndIsrPartitionState,
    Partition,
    Role,
)
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from tests.storage.helpers import append, batch, new_log

US, OTHER = 0, 1
REFUSALS = {Role.REFUSED: ErrorCode.INVALID_CONFIG, Role.OFFLINE: ErrorCode.KAFKA_STORAGE_ERROR}


def told(leader: int = US, isr: tuple[int, ...] = (US,), leader_epoch: int = 3) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(leader, leader_epoch, 1, 0, isr, isr)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log with five records."""
    log = new_log(tmp_path)
    append(log, batch(5))
    return log


def partition_with_log(log: Log, state: LeaderAndIsrPartitionState | None = None) -> Partition:
    partition = Partition(US, TopicPartition("t", 0))
    partition.log = log
    if state is not None:
        partition.take_state(state)
        partition.become(None)
    return partition


def refusal_of(partition: Partition, epoch: int = -1) -> ErrorCode:
    with pytest.raises(ApiError) as raised:
        partition.leader_log(epoch)
    return raised.value.code


@pytest.mark.parametrize(("before", "after"), list(product(Role, Role)))
def test_a_role_changes_as_the_table_says(before: Role, after: Role, log: Log) -> None:
    """Any other change raises and changes nothing."""
    partition = partition_with_log(log)
    partition.role, partition.refusal = before, REFUSALS.get(before)
    if before in TRANSITIONS[after]:
        partition.change_role(after, REFUSALS.get(after))
        assert (partition.role, partition.refusal) == (after, REFUSALS.get(after))
    else:
        with pytest.raises(IllegalRoleChange):
            partition.change_role(after, REFUSALS.get(after))
        assert (partition.role, partition.refusal) == (before, REFUSALS.get(before))


def test_nothing_leads_out_of_a_failed_directory_or_a_stopped_replica(log: Log) -> None:
    """Only a restart opens the log again."""
    assert {role for role, before in TRANSITIONS.items() if Role.OFFLINE in before} == {Role.OFFLINE}
    assert not any(Role.STOPPED in before for before in TRANSITIONS.values())


def test_a_follower_refers_clients_to_the_leader(log: Log) -> None:
    """Only the leader's records are appended to its log."""
    partition = partition_with_log(log, told(leader=OTHER, isr=(US, OTHER)))
    assert partition.role is Role.FOLLOWER
    assert refusal_of(partition) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.take_state(told(isr=(US, OTHER), leader_epoch=4))
    partition.become(None)
    assert partition.leader_log() is partition.log


def test_a_leader_fences_clients_by_epoch(log: Log) -> None:
    """KIP-320: an older epoch is fenced, a newer one is unknown."""
    partition = partition_with_log(log, told(leader_epoch=3))
    assert partition.leader_log(3) is partition.leader_log(-1) is partition.log
    assert refusal_of(partition, 2) == ErrorCode.FENCED_LEADER_EPOCH
    assert refusal_of(partition, 4) == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("role", REFUSALS)
def test_a_partition_that_cannot_be_served_says_why(role: Role, log: Log) -> None:
    """This error takes precedence over errors about epochs."""
    partition = partition_with_log(log, told())
    partition.become(REFUSALS[role])
    assert partition.role is role
    assert refusal_of(partition, 2) == REFUSALS[role]


def test_what_is_being_flushed_is_not_committed(log: Log) -> None:
    """The high watermark stays where the first pending flush began."""
    partition = partition_with_log(log, told())
    assert log.high_watermark == 5 and log.commits_appends
    partition.flush_begins(3)
    partition.flush_begins(4)
    assert (log.high_watermark, log.commits_appends) == (3, False)
    assert partition.has_committed(2, 0) and not partition.has_committed(3, 0)
    partition.flush_ended()
    assert log.high_watermark == 3
    log.flush()
    append(log, batch())
    partition.flush_ended()
    assert (log.high_watermark, log.commits_appends) == (6, True)
    assert partition.has_committed(4, 0)


def test_the_first_of_two_flushes_commits_what_it_made_durable(log: Log) -> None:
    """The rest of the records wait for the second flush."""
    partition = partition_with_log(log, told())
    partition.flush_begins(3)
    log.flush()
    append(log, batch(2))
    partition.flush_begins(5)
    partition.flush_ended()
    assert (log.high_watermark, log.log_end_offset) == (5, 7)


@pytest.mark.parametrize("state", [told(leader=OTHER), told(isr=(US, OTHER))], ids=["follower", "others in sync"])
def test_a_replica_that_is_not_alone_commits_nothing_by_itself(log: Log, state: LeaderAndIsrPartitionState) -> None:
    """Records that it appended while it was alone stay committed; a flush that ends late changes nothing."""
    partition = partition_with_log(log, told())
    partition.flush_begins(4)
    partition.take_state(state._replace(leader_epoch=4))
    partition.become(None)
    append(log, batch(), leader_epoch=4)
    assert log.high_watermark == 4
    log.flush()
    partition.flush_ended()
    assert log.high_watermark == 4
    assert log.update_high_watermark(6) == 6


def test_an_append_is_not_acknowledged_by_too_few_replicas_or_by_a_former_leader(log: Log) -> None:
    """Source: Partition.checkEnoughReplicasReachOffset@3.9."""
    partition = partition_with_log(log, told()._replace(replicas=(US, OTHER)))
    assert log.high_watermark == 5
    log.update_config(LogConfig(min_insync_replicas=2))
    with pytest.raises(ApiError) as raised:
        partition.has_committed(4, 0)
    assert raised.value.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    partition.take_state(told(leader=OTHER))
    partition.become(None)
    with pytest.raises(ApiError) as raised:
        partition.has_committed(4, 0)
    assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
