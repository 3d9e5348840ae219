"""The museum: fates of records, two runs side by side, and the command. ``test_scenarios`` plays every exhibit."""

import json

import click
import pytest
from click.testing import CliRunner, Result

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.cluster.museum import command
from kafka_zk.sim.judges.fates import Fate, fates, faults
from kafka_zk.sim.museum.exhibits import EXHIBITS, Seen, exhibit, see
from kafka_zk.sim.museum.side_by_side import LOG, Row, rows
from kafka_zk.sim.replay.player import COMMAND, FACT, FOUND, HELD, Line
from kafka_zk.sim.scenarios.scenario import OLD, OURS, Statement
from kafka_zk.sim.world.history import Acked, Began, Ended, Fact, Found, HandedOut, Sent
from kafka_zk.sim.world.replica_contents import changes

TP = TopicPartition("t", 0)
OTHER = TopicPartition("gone", 0)


@pytest.fixture(scope="module")
def seen() -> Seen:
    return see(exhibit("truncation-by-watermark"))


def sent(value: str, tp: TopicPartition = TP) -> Sent:
    return Sent(0, "pia", tp, f"pia:{value}")


def acked(value: str, offset: int, tp: TopicPartition = TP) -> Acked:
    return Acked(1, "pia", tp, f"pia:{value}", offset)


def read(member: str, value: str, offset: int) -> HandedOut:
    return HandedOut(2, f"g_{member}-0", TP, offset, f"pia:{value}")


def test_the_fate_of_a_record_follows_from_the_history_and_the_log() -> None:
    facts: list[Fact] = [
        *map(sent, "abcdef"), sent("g", OTHER), acked("a", 0), acked("b", 1), acked("c", 2), acked("g", 0, OTHER),
        acked("f", 5), read("anna", "a", 0), read("ben", "a", 0), read("anna", "e", 4), read("anna", "f", 5),
        sent("h"), read("anna", "h", 6), read("anna", "h", 6),
    ]  # fmt: skip
    log = [Found(TP, offset, f"pia:{value}") for offset, value in enumerate("axddefh")]
    found = [(each.value, each.fate, each.said) for each in fates(facts, {TP: log}, {"t"})]
    assert found == [
        ("a", Fate.READ_TWICE, "by anna and ben"),
        ("b", Fate.LOST, "acknowledged at 1, where x is"),
        ("c", Fate.LOST, "acknowledged at 2, where d is"),
        ("d", Fate.WRITTEN_TWICE, "2 times in the log"),
        ("e", Fate.KEPT, ""),
        ("f", Fate.KEPT, ""),
        ("g", Fate.LOST, "acknowledged at 0; no broker serves gone-0"),
        ("h", Fate.READ_TWICE, "by anna"),
    ]


def test_a_record_that_was_not_acknowledged_is_not_lost_and_one_in_the_log_may_be_unread() -> None:
    log = {TP: [Found(TP, 0, "pia:b")]}
    facts: list[Fact] = [sent("a"), sent("b"), acked("b", 0)]
    assert [each.fate for each in fates(facts, log, {"t"})] == [Fate.WAITS, Fate.NOT_READ]
    assert [each.fate for each in fates(facts, log)] == [Fate.WAITS, Fate.KEPT]


def test_a_committed_record_that_readers_do_not_get_is_left_out_of_its_transaction() -> None:
    facts: list[Fact] = [
        Began(0, "pia"), sent("a"), acked("a", 0), Ended(1, "pia", False),
        Began(2, "pia"), sent("b"), acked("b", 2), sent("c"), acked("c", 4), Ended(3, "pia", True),
        Began(4, "pia"), sent("d"), acked("d", 6), sent("e", OTHER), acked("e", 0, OTHER),
    ]  # fmt: skip
    everything = {TP: [Found(TP, offset, f"pia:{value}") for offset, value in ((0, "a"), (2, "b"), (4, "c"), (6, "d"))]}
    found = fates(facts, everything, committed={TP: [Found(TP, 4, "pia:c")]})
    assert [each.fate for each in found] == [Fate.ABORTED, Fate.LEFT_OUT, Fate.KEPT, Fate.KEPT, Fate.LOST]
    assert [each.value for each in faults(found, found)] == ["b", "e"]


def line(play: str, number: int, kind: str, text: str, time_ms: float = 0, who: str = "x") -> Line:
    return Line(play, time_ms, kind, who if kind in (FACT, LOG) else "", text, number)


def test_only_events_that_differ_stand_side_by_side() -> None:
    lines = [
        line(OLD, 1, COMMAND, "kill b"), line(OLD, 0, FACT, "dies", 1000), line(OLD, 0, FACT, "is lost", 2000),
        line(OLD, 0, LOG, "has a", 2000), line(OLD, 2, HELD, "[old] expect"), line(OLD, 0, FOUND, "a is lost"),
        line(OURS, 1, COMMAND, "kill b"), line(OURS, 0, FACT, "dies", 1500), line(OURS, 0, LOG, "has a", 2000),
        line(OURS, 3, COMMAND, "only ours"),
    ]  # fmt: skip
    assert rows(lines) == [
        Row(False, "kill b", ("2.0 x: has a",), ("2.0 x: is lost",), ()),
        Row(False, "only ours", (), (), ()),
    ]


def test_a_replica_that_lost_records_says_which_it_had() -> None:
    before = {("broker-1", "t-0"): ("a", "b"), ("broker-2", "t-0"): ("a",)}
    after = {("broker-1", "t-0"): ("a",), ("broker-2", "t-0"): ("a", "b"), ("broker-3", "t-0"): ()}
    assert list(changes(before, after)) == [
        ("broker-1", "its log of t-0 has a; it had a b"),
        ("broker-2", "its log of t-0 has a b"),
    ]


def test_each_exhibit_has_a_question_a_conclusion_and_sources() -> None:
    for name in EXHIBITS:
        told = exhibit(name).told
        assert told.question.endswith("?") and told.conclusion.endswith(".") and "\n" not in told.conclusion, name
        assert told.sources and all("https://" in source for source in told.sources), name
    with pytest.raises(KeyError):
        exhibit("deletion-at-failover-2")


def test_both_plays_of_an_exhibit_have_the_same_actions() -> None:
    for name in EXHIBITS:
        limited = [each for each in exhibit(name).script if isinstance(each, Statement) and each.only]
        assert limited and all(each.text.startswith(f"[{each.only}] expect ") for each in limited), name


def test_the_replica_that_dropped_a_committed_record_is_seen(seen: Seen) -> None:
    assert [each.fate for each in seen.old.records] == [Fate.KEPT, Fate.LOST]
    assert seen.old.faults == {"b in orders-0"} and not seen.ours.faults
    differing = [event for row in rows(seen.lines) for event in row.old]
    assert any("broker-4: its log of orders-0 has a; it had a b" in event for event in differing)
    assert not any(row.ours for row in rows(seen.lines))


def test_a_late_abort_tears_the_next_transaction() -> None:
    torn = see(exhibit("torn-transaction"))
    assert torn.old.faults == {"debit in accounts-0"} and not torn.ours.faults
    logs = [{each.text for each in torn.lines if each.kind == LOG and each.play == play} for play in (OLD, OURS)]
    assert "its log of accounts-0 has mistake (abort) debit (abort)" in logs[0]
    assert "its log of accounts-0 has mistake (abort) debit (commit)" in logs[1]


# -- the command --------------------------------------------------------------------------------------------------


def run(monkeypatch: pytest.MonkeyPatch, seen: Seen, *arguments: str) -> Result:
    monkeypatch.setattr("kafka_zk.sim.museum.exhibits.see", lambda scenario: seen)
    return CliRunner().invoke(command, arguments, color=True)


def test_the_command_lists_the_exhibits(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    assert all(name in run(monkeypatch, seen).output for name in EXHIBITS)
    listed = json.loads(run(monkeypatch, seen, "--json").output)
    assert [each["EXHIBIT"] for each in listed] == list(EXHIBITS) and all(each["question"] for each in listed)


def test_a_lost_record_is_red_and_a_sentence_concludes(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    shown = run(monkeypatch, seen, "truncation-by-watermark")
    assert shown.exit_code == 0
    [lost] = [line for line in shown.output.splitlines() if "LOST" in line]
    assert lost.startswith("\x1b[31m") and lost.endswith("kept")
    assert shown.output.index("Question: ") < shown.output.index("OLD RULE: ") < shown.output.index("Conclusion: ")


def test_the_command_as_json_says_which_records_a_rule_lost(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    number = EXHIBITS.index("truncation-by-watermark") + 1
    document = json.loads(run(monkeypatch, seen, str(number), "--json").output)
    assert document["old_rule"] == "truncation_to_the_high_watermark"
    assert [each["is_fault"] for each in document["old"]["records"]] == [False, True]
    assert document["ours"]["violations"] == []


def test_ctrl_c_at_the_question_ends_the_command(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise click.Abort

    monkeypatch.setattr("kafka_zk.cli.cluster.museum._is_asked", lambda: True)
    monkeypatch.setattr(click, "prompt", interrupted)
    stopped = run(monkeypatch, seen, "truncation-by-watermark")
    assert stopped.exit_code == 1 and "Question: " in stopped.output and "OLD RULE" not in stopped.output


def test_an_unknown_exhibit_is_an_error_that_helps(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    near, far = run(monkeypatch, seen, "two-log"), run(monkeypatch, seen, "99")
    assert "did you mean two-logs?" in near.output and near.exit_code == 1
    assert "kafka-zk museum lists the exhibits" in far.output and far.exit_code == 1


def test_an_exhibit_that_does_not_show_its_fault_fails(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    broken = seen._replace(failed=(line(OLD, 30, HELD, "[old] expect the judges find was acknowledged"),))
    failed = run(monkeypatch, broken, "truncation-by-watermark")
    assert failed.exit_code == 1 and "does not show what it promises" in failed.output
