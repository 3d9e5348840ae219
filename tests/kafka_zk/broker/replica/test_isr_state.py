"""A leader's view of the ISR while a change of it is under way."""

import pytest

from kafka_zk.broker.replica.isr_state import Committed, Ending, WrittenIsr, ending_of, is_current
from kafka_zk.protocol.errors import ErrorCode

COMMITTED = Committed((1, 3, 2))


def test_a_follower_that_joins_counts_before_it_is_committed() -> None:
    """The ISR keeps its order, and the new member comes last."""
    pending = COMMITTED.expand(4)
    assert (pending.proposed, pending.isr, pending.maximal_isr) == ((1, 3, 2, 4), (1, 3, 2), (1, 3, 2, 4))


def test_a_follower_that_leaves_counts_until_that_is_committed() -> None:
    pending = COMMITTED.shrink([3])
    assert (pending.proposed, pending.isr, pending.maximal_isr) == ((1, 2), (1, 3, 2), (1, 3, 2))


@pytest.mark.parametrize(
    ("codes", "ending"),
    [
        ([ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA], Ending.REVERTED),
        (
            [
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_LEADER_EPOCH,
                ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NEW_LEADER_ELECTED,
            ],
            Ending.GIVEN_UP,
        ),
        ([ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT, 9999], Ending.RETRIED),
    ],
)  # fmt: skip
def test_the_error_code_says_how_a_change_ends(codes: list[int], ending: Ending) -> None:
    """Source: Partition.handleAlterPartitionError@3.9."""
    assert [ending_of(code) for code in codes] == [ending] * len(codes)


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "expected"), [(5, 8, True), (5, 7, True), (5, 6, False), (4, 8, False)]
)
def test_only_the_news_of_this_leader_epoch_are_taken(leader_epoch: int, partition_epoch: int, expected: bool) -> None:
    assert is_current(WrittenIsr(leader_epoch, (1,), partition_epoch), 5, 7) is expected
