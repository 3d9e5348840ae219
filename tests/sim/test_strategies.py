"""Strategies side by side: the measurements, their description, the command, and the page's file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest
from click.testing import CliRunner, Result

from kafka_zk.cli.cluster import strategies as shown
from kafka_zk.cli.cluster.replay import command
from kafka_zk.recorder.web.strategies import strategies
from kafka_zk.sim.strategies import comparison
from kafka_zk.sim.strategies.measured import Owned, measured
from kafka_zk.sim.strategies.members import STRATEGIES, Processed, Strategy
from kafka_zk.sim.strategies.play import AFTER_MS, BEFORE_MS, CHANGES, SAMPLE_MS, Acknowledged, Change, Observed, play
from kafka_zk.sim.strategies.told import Row, conclusion, frame, sentence
from tests.sim.strategies_file import computed

EAGER, COOPERATIVE = STRATEGIES[0], STRATEGIES[3]


def observed(stop_ms: int, back_ms: int) -> Observed:
    """anna and ben read one partition each, but not from ``stop_ms`` to ``back_ms``. Each gets a record every 100 ms,
    which takes 20 ms. ben joins at 0 ms.
    """
    owners = {"anna": (0,), "ben": (1,)}

    def at(time_ms: int) -> Mapping[str, tuple[int, ...]]:
        present = owners if time_ms >= 0 else {"anna": (0,)}
        return {name: () if stop_ms <= time_ms < back_ms else each for name, each in present.items()}

    sent, done = [], []
    free_ms = {"anna": -BEFORE_MS, "ben": 200}
    for time_ms in range(-BEFORE_MS, AFTER_MS, 100):
        for name, (partition,) in owners.items():
            if name == "anna" or time_ms >= 0:
                sent.append(Acknowledged(time_ms, partition, f"{name}{time_ms}"))
                began_ms = max(time_ms, free_ms[name])
                began_ms = back_ms if stop_ms <= began_ms < back_ms else began_ms
                free_ms[name] = began_ms + 20
                done.append(Processed(began_ms, began_ms + 20, name, f"{name}{time_ms}"))
    samples = tuple((time_ms, at(time_ms)) for time_ms in range(-BEFORE_MS, AFTER_MS, SAMPLE_MS))
    return Observed(samples, tuple(sent), tuple(done), {"anna": -BEFORE_MS, "ben": 0}, {})


def test_a_silence_is_time_without_records_while_records_wait() -> None:
    """Pauses between two records are not silences."""
    anna, ben = measured(observed(1_000, 3_000)).lanes
    assert (anna.silences, anna.longest_ms) == (((1_000, 3_000),), 2_000)
    assert ben.silences == ((0, 200), (1_000, 3_000)), "from joining until the first record"


def test_a_member_without_any_record_is_silent_until_the_end() -> None:
    """A record that the member has not finished at the end does not count as silence."""
    anna, ben = measured(observed(1_000, AFTER_MS)).lanes
    assert anna.silences == ((1_000, AFTER_MS),) and ben.silences[-1] == (1_000, AFTER_MS)
    assert measured(observed(1_000, 1_000)).lanes[0].silences == ()


def test_who_owns_what_when() -> None:
    cost = measured(observed(1_000, 3_000))
    assert cost.owned == (
        Owned(0, "anna", -BEFORE_MS, 1_000),
        Owned(0, "anna", 3_000, AFTER_MS),
        Owned(1, "ben", 0, 1_000),
        Owned(1, "ben", 3_000, AFTER_MS),
    )


def test_records_that_waited_until_the_group_has_caught_up() -> None:
    cost = measured(observed(1_000, 3_000))
    assert (cost.waited, cost.longest_wait_ms) == (26, 2_000)
    assert max(cost.waiting) == 40 and cost.caught_up_ms == 3_500
    assert measured(observed(12_000, AFTER_MS)).caught_up_ms is None


def test_a_record_that_two_members_process_counts_as_one() -> None:
    once = observed(1_000, 1_000)
    again = once.processed[7]._replace(member="ben", began_ms=500.0, ended_ms=520.0)
    twice = once._replace(processed=(*once.processed, again))
    assert (measured(once).twice, measured(twice).twice) == (0, 1)
    assert measured(twice).longest_wait_ms == measured(once).longest_wait_ms


def test_a_long_record_makes_a_member_busy_and_not_silent() -> None:
    made = observed(1_000, 1_000)
    during = {f"anna{time_ms}" for time_ms in range(5_100, 6_000, 100)}
    processed = [
        each._replace(ended_ms=6_000.0) if each.value == "anna5000" else each
        for each in made.processed
        if each.value not in during
    ]
    sent = [each for each in made.acknowledged if each.value not in during]
    anna = measured(made._replace(processed=tuple(processed), acknowledged=tuple(sent))).lanes[0]
    assert (anna.busy, anna.silences) == (((5_000, 6_000),), ())


def row(strategy: Strategy, stop_ms: int, back_ms: int) -> Row:
    return Row(strategy, measured(observed(stop_ms, back_ms)))


def test_a_sentence_for_each_strategy_and_one_for_all() -> None:
    rows = [row(EAGER, 1_000, 3_000), row(COOPERATIVE, 1_000, 1_100)]
    assert sentence(rows[0]) == (
        "Longest silence: anna 2.0 s, ben 2.0 s; ben gets its first record after 2.0 s; 26 records waited longer than"
        " 1 s, one of them 2.0 s; the group has caught up after 3.5 s."
    )
    assert conclusion(rows) == (
        "A member that stays is silent for up to 2.0 s under eager (ZooKeeper group), but at most 200 ms under"
        " cooperative; 26 records waited longer than 1 s under eager (ZooKeeper group), but none under cooperative."
    )
    assert "but none under the others" in conclusion([*rows, row(COOPERATIVE, 1_000, 1_000)])
    assert conclusion(rows[1:]) == (
        "No member that stays is silent for longer than 200 ms; no record waited longer than 1 s."
    )


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(change: Change) -> Iterator[Row]:
        yield row(EAGER, 1_000, 3_000)
        yield row(COOPERATIVE, 1_000, 1_000)

    monkeypatch.setattr(comparison, "rows", rows)


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


@pytest.mark.usefixtures("played")
def test_the_command_draws_partitions_members_and_waiting_records() -> None:
    lines = ran("--strategies", "join").output.splitlines()
    assert "  0       aaaaaaaaaaaa········aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" in lines
    assert "ben               !bbb!!!!!!!!bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" in lines
    assert any(line.startswith("Conclusion: A member that stays") for line in lines)


@pytest.mark.usefixtures("played")
def test_programs_get_the_comparison_as_json() -> None:
    document = json.loads(ran("--strategies", "die", "--json").output)
    assert document["name"] == "die" and document["plays"][0]["kind"] == "ZooKeeper group"
    assert document["plays"][0]["lanes"][0]["longest_ms"] == 2_000


@pytest.mark.parametrize("beside", ["two-owners", "--phrases", "--write", "-v"])
def test_a_change_is_played_alone(beside: str) -> None:
    result = ran("--strategies", "join", beside)
    assert result.exit_code == 2 and "can be combined only with --json" in result.output


def test_the_command_knows_all_changes() -> None:
    assert tuple(CHANGES) == shown.CHANGES


def test_a_member_that_leaves_between_two_records_doubles_none() -> None:
    """When a consumer is closed, a record that its program still holds does not count as processed."""
    left = play(CHANGES["leave"], STRATEGIES[2])
    last = max(each.ended_ms for each in left.processed if each.member == "cara")
    assert measured(left).twice == 0 and left.gone == {"cara": last} and last > 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_page_shows_what_the_simulator_computes(change: Change) -> None:
    """``python -m tests.sim.strategies_file`` writes the file."""
    document = strategies()
    (found,) = (each for each in document["changes"] if each["name"] == change.name)
    assert computed(change) == found
    assert {name: value for name, value in document.items() if name != "changes"} == frame()
