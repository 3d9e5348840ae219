"""Tables of elections: which replica becomes the leader."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.broker.controller import election
from kafka_zk.broker.controller.election import Absences, Elected

IDS = st.lists(st.integers(0, 6), unique=True, max_size=5)


@pytest.mark.parametrize(
    ("live", "elected"),
    [([1, 2, 3], Elected(1, [1, 2, 3])), ([3, 2], Elected(3, [3, 2])), ([], None)],
)
def test_new_partition(live: list[int], elected: Elected | None) -> None:
    assert election.new_partition(live) == elected


@pytest.mark.parametrize(
    ("assigned", "isr", "live", "unclean", "elected"),
    [
        ([1, 2, 3], [1, 2, 3], [2, 3], False, Elected(2, [2, 3])),
        ([1, 2, 3], [3, 2], [2, 3], False, Elected(2, [3, 2])),  # the ISR keeps its order
        ([1, 2, 3], [3, 1], [1, 2, 3], False, Elected(1, [3, 1])),  # the assignment's order decides
        ([1, 2, 3], [1], [2, 3], False, None),
        ([1, 2, 3], [1], [2, 3], True, Elected(2, [2], unclean=True)),
        ([1, 2, 3], [1, 3], [2, 3], True, Elected(3, [3])),  # clean if possible
        ([1, 2], [1], [], True, None),
        ([1, 2], [9], [1, 9], False, None),  # a member of the ISR that is not assigned
    ],
)
def test_offline(assigned: list[int], isr: list[int], live: list[int], unclean: bool, elected: Elected | None) -> None:
    assert election.offline(assigned, isr, live, unclean) == elected


@pytest.mark.parametrize(
    ("isr", "live", "away", "unclean", "elected"),
    [
        ([1, 2, 3], [1, 2, 3], [1], [], Elected(2, [1, 2, 3])),  # after a clean stop, a replica has all records
        ([1, 2, 3], [1, 2, 3], [1, 2], [], Elected(3, [1, 2, 3])),
        ([1, 2, 3], [1, 2, 3], [1, 2, 3], [1], Elected(2, [2, 3])),  # a clean election comes before an unclean one
        ([1, 2, 3], [1, 2, 3], [1], [1], Elected(2, [2, 3])),
        ([1, 2, 3], [1, 2, 3], [], [1], Elected(2, [2, 3])),
        ([1, 2, 3], [1, 3], [1], [1], Elected(3, [3])),
        ([1, 2, 3], [1, 2, 3], [1, 2, 3], [], Elected(1, [1, 2, 3])),  # without further information: Kafka's order
        ([1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3], Elected(1, [1])),
        ([1, 2, 3], [1, 2], [1, 2], [1, 2], Elected(1, [1])),
        ([1, 2, 3], [1], [1], [1], Elected(1, [1])),  # the others cannot lead now
        ([1, 2, 3], [], [], [], None),
    ],
)
def test_members_that_were_away_lead_only_if_no_other_can(
    isr: list[int], live: list[int], away: list[int], unclean: list[int], elected: Elected | None
) -> None:
    assert election.offline([1, 2, 3], isr, live, absences=Absences(away, unclean)) == elected
    assert election.returned([1, 2, 3], isr, live, 1, Absences(away, unclean)) == elected


def test_among_equals_the_leader_stays() -> None:
    assert election.returned([1, 2, 3], [1, 2, 3], [1, 2, 3], 3, Absences([1, 2, 3], [2])) == Elected(3, [1, 3])


@pytest.mark.parametrize(
    ("isr", "live", "away", "unclean", "again"),
    [
        ([1, 2, 3], [1, 2, 3], [], [], False),
        ([1, 2, 3], [1, 2, 3], [1], [], True),
        ([1, 2, 3], [1, 2, 3], [1, 2, 3], [], False),  # all sessions had expired
        ([1, 2, 3], [1], [1], [], False),  # the others cannot lead
        ([1, 2, 3], [1, 2, 3], [2], [], False),  # a follower that has everything
        ([1, 2, 3], [1, 2, 3], [2], [2], True),  # a follower that has to leave
        ([1, 2, 3], [1, 2, 3], [], [2], True),
        ([1], [1], [1], [1], True),  # the new epoch shows followers outside the ISR which records are lost
        ([1], [1], [], [1], False),  # the leader has its new epoch already
    ],
)
def test_when_a_partition_with_a_leader_is_elected_again(
    isr: list[int], live: list[int], away: list[int], unclean: list[int], again: bool
) -> None:
    absences = Absences(away, unclean)
    assert election.must_be_elected_again([1, 2, 3], isr, live, 1, absences) is again
    assert not election.must_be_elected_again([1], [1], live, 1, absences)  # without followers


@pytest.mark.parametrize(
    ("target", "isr", "live", "elected"),
    [
        ([4, 5], [1, 5, 4], [4, 5], Elected(4, [1, 5, 4])),
        ([4, 5], [1, 5], [4, 5], Elected(5, [1, 5])),
        ([4, 5], [1, 4, 5], [5], Elected(5, [1, 4, 5])),
        ([4, 5], [1], [1, 4, 5], None),
    ],
)
def test_reassign(target: list[int], isr: list[int], live: list[int], elected: Elected | None) -> None:
    assert election.reassign(target, isr, live) == elected


@pytest.mark.parametrize(
    ("assigned", "isr", "live", "elected"),
    [
        ([1, 2], [2, 1], [1, 2], Elected(1, [2, 1])),
        ([1, 2], [2], [1, 2], None),
        ([1, 2], [1, 2], [2], None),
        ([], [1], [1], None),
    ],
)
def test_preferred(assigned: list[int], isr: list[int], live: list[int], elected: Elected | None) -> None:
    assert election.preferred(assigned, isr, live) == elected


@pytest.mark.parametrize(
    ("assigned", "isr", "reachable", "stopping", "elected"),
    [
        ([1, 2, 3], [1, 2, 3], [1, 2, 3], {1}, Elected(2, [2, 3])),
        ([1, 2, 3], [1, 3], [1, 2, 3], {1}, Elected(3, [3])),
        ([1, 2, 3], [1, 2, 3], [1, 2, 3], {1, 2}, Elected(3, [3])),
        ([1, 2], [1, 2], [1], {1}, None),
        ([1], [1], [1], {1}, None),
    ],
)
def test_controlled_shutdown(
    assigned: list[int], isr: list[int], reachable: list[int], stopping: set[int], elected: Elected | None
) -> None:
    assert election.controlled_shutdown(assigned, isr, reachable, stopping) == elected


@pytest.mark.parametrize(
    "elect",
    [
        lambda assigned, isr, live: election.offline(assigned, isr, live),
        lambda assigned, isr, live: election.offline(assigned, isr, live, unclean_allowed=True),
        lambda assigned, isr, live: election.offline(assigned, isr, live, absences=Absences([0, 1, 2], [2, 3])),
        election.reassign,
        election.preferred,
        lambda assigned, isr, live: election.controlled_shutdown(assigned, isr, live, {0}),
    ],
)
@given(IDS, IDS, IDS)
def test_a_leader_is_assigned_live_and_in_the_new_isr(
    elect: Callable[[list[int], list[int], list[int]], Elected | None],
    assigned: list[int],
    isr: list[int],
    live: list[int],
) -> None:
    elected = elect(assigned, isr, live)
    if elected is not None:
        assert elected.leader in assigned and elected.leader in live and elected.leader in elected.isr
        assert elected.unclean == (elected.leader not in isr)
        assert elected.unclean or set(elected.isr) <= set(isr)
