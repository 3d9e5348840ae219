"""A failover or a rebalance is one line, with its cost."""

from kafka_zk.recorder.recording.spans import Move
from kafka_zk.recorder.web.episodes import NEAR_MS, GroupStep, episodes


def test_a_failover_is_one_episode_and_its_price_is_the_time_without_a_leader() -> None:
    moves = [
        Move("broker", "broker 2", "", "session 0x1", 1_000, None),
        Move("leader", "t-0", "broker 0", "broker 2", 1_040, None),
        Move("leader", "t-1", "broker 1", "broker 1", 1_045, None),
        Move("leader", "t-2", "broker 1", "broker 2", 1_050, None),
    ]
    [told] = episodes(moves, [], 9_000)
    assert told.text == "broker 2 lost its session; 2 partitions moved to other leaders"
    assert (told.subject, told.from_ms, told.to_ms, told.silent_ms, told.lasts) == ("cluster", 1_000, 1_050, 50, False)


def test_an_outage_ends_with_the_new_leaders_not_with_the_return_to_the_preferred_one() -> None:
    moves = [
        Move("broker", "broker 2", "", "session 0x1", 4_500, None),
        Move("leader", "t-0", "broker 0", "broker 2", 5_900, None),
        Move("leader", "t-1", "broker 1", "broker 2", 7_100, None),
        Move("broker", "broker 2", "session 0x2", "", 7_900, None),
        Move("leader", "t-0", "broker 2", "broker 0", 9_500, None),
    ]
    assert [each.silent_ms for each in episodes(moves, [], 20_000)] == [2_600]


def test_partitions_without_a_leader_wait_until_they_have_one() -> None:
    lost = Move("leader", "t-0", "", "broker 2", 1_000, None)
    [told] = episodes([lost], [], 9_000)
    assert (told.text, told.silent_ms, told.lasts) == ("1 partition without a leader", 8_000, True)
    over = episodes([lost._replace(to_ms=5_000), Move("leader", "t-0", "broker 2", "", 5_000, None)], [], 9_000)
    assert [(each.text, each.silent_ms, each.to_ms, each.lasts) for each in over] == [
        ("1 partition without a leader", 4_000, 5_000, False), ("1 partition moved to other leaders", 0, 5_000, False)
    ]  # fmt: skip


def test_groups_rebalance_each_by_itself() -> None:
    """A partition that is released and claimed again is one rebalance; a later one is another."""
    moves = [
        Move("owner", "g: t-0", "", "anna-0", 1_000, 1_030),
        Move("owner", "h: t-0", "", "carl-0", 1_001, None),
        Move("member", "g: bert", "session 0x2", None, 1_010, None),
        Move("owner", "g: t-0", "bert-0", "", 1_030, None),
        Move("member", "g: bert", "", "session 0x2", 1_031 + NEAR_MS, None),
    ]
    told = {(each.subject, each.text): each for each in episodes(moves, [], 9_000)}
    assert list(told) == [
        ("group g", "bert joined; rebalanced: 1 partition claimed"),
        ("group h", "1 partition without an owner"),
        ("group g", "bert left"),
    ]
    assert next(iter(told.values())).silent_ms == 30


def test_a_coordinators_rebalance_lasts_from_its_preparation_to_its_assignment() -> None:
    steps = [
        GroupStep("g", True, 1, 0, 1_000), GroupStep("g", True, 1, 0, 1_100), GroupStep("g", False, 2, 3, 1_500),
        GroupStep("g", True, 2, 0, 8_000),
    ]  # fmt: skip
    done, lasting = episodes([], steps, 9_000)
    assert (done.subject, done.text) == ("group of the broker g", "rebalanced: generation 2, 3 members")
    assert (done.from_ms, done.to_ms, done.lasts) == (1_000, 1_500, False)
    assert (lasting.from_ms, lasting.to_ms, lasting.lasts) == (8_000, 9_000, True)
