"""Built-in scenarios reproduce their recorded traces. Also, how a file's statements are parsed, and what its errors
say.

With KAFKA_ZK_REWRITE_SCENARIOS=1 in the environment the traces are rewritten. Commit that only if you understand the
difference.
"""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.cli.cluster.replay import command
from kafka_zk.rebalance.driver import GroupDriver
from kafka_zk.sim.campaign.plan import Fault
from kafka_zk.sim.museum.exhibits import EXHIBITS
from kafka_zk.sim.replay.player import replay
from kafka_zk.sim.scenarios import conditions, library, old_rules, verbs
from kafka_zk.sim.scenarios.scenario import OLD, OURS, parse, with_trace
from kafka_zk.sim.scenarios.statements import Phrase, ScenarioError
from tests.sim.shrink import as_scenario

SMALL = "# A small one\n\nbrokers 1\nexpect broker-1 is the controller\n"


@pytest.mark.parametrize("name", library.names())
def test_a_built_in_scenario_is_played_as_it_was(name: str) -> None:
    path = library.built_in()[name]
    scenario = parse(path.read_text())
    played = replay(scenario, lambda line: None)
    if os.environ.get("KAFKA_ZK_REWRITE_SCENARIOS"):
        path.write_text(with_trace(scenario, played.trace))
        return
    assert not played.failed
    assert tuple(played.trace) == scenario.trace, f"kafka-zk replay {name} shows the difference"
    if name in EXHIBITS:
        assert played.violations[OLD], "an exhibit must fail under the old rule"
        assert not played.violations[OURS], "an exhibit must pass under our rule"


def test_each_built_in_scenario_teaches_something_with_a_rule_of_its_own() -> None:
    scenarios = [parse(path.read_text()) for path in library.built_in().values()]
    assert len(scenarios) >= 8
    assert len({scenario.old_rule for scenario in scenarios}) == len(scenarios)
    assert all(len(" ".join(scenario.lesson)) > 200 for scenario in scenarios)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("paus anna", '"paus anna" is not understood; did you mean "pause {name}"?'),
        ("wait 3", '"wait 3" is not understood; did you mean "wait {duration}"?'),
        ("expect broker-1 is controller", "did you mean"),
        ("wait until", '"wait until" is not understood'),
        ("old rule no_leas", 'there is no old rule no_leas; did you mean "no_lease"?'),
        ("seed seven", '"seed seven" is not a seed'),
        ("[old] wait 1 s", '[old] needs a line "old rule …" before it'),
        ("fault 100 kill broker-1 5", 'a fault belongs to the run of a seed'),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_understood_is_named(line: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=r"^line 5: ") as raised:
        parse(f"{SMALL}{line}\n")
    assert reason.removeprefix('"seed seven"') in str(raised.value)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("brokers 1\n", 1, "the first line is the title"),
        ("# Nothing\n", 0, "nothing happens"),
        ("# Late\n\nbrokers 1\nseed 7\n", 4, "the seed must come before all statements"),
        ("# Mixed\n\nplay seed 7\nbrokers 1\n", 4, "the run of a seed has only faults"),
        ("# Fault\n\nplay seed 7\nfault 100 explode broker-1 5\n", 4, "explode is not a fault"),
        ("# Fault\n\nplay seed 7\nfault soon\n", 4, '"soon" is not a fault'),
        ("# Fault\n\nplay seed 7\nfault 100 kill broker-9 5\n", 4, "unknown name broker-9"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_played_says_why(text: str, line: int, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason) as raised:
        parse(text)
    assert raised.value.line == line


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("pause anna", "line 4: pause anna: unknown name anna; there are: broker-1"),
        ("start broker-1", "line 4: start broker-1: broker-1 runs already"),
        ("brokers 2", "line 4: brokers 2: the brokers have already been started"),
        ("topic t with 1 partition on broker-9", "no broker is called broker-9; there are: broker-1"),
        ("pia aborts the transaction", 'pia has no transaction: "pia begins a transaction" begins one'),
        (
            "topic t with 1 partition\npia sends a to t-0\npia begins a transaction",
            "line 6: pia begins a transaction: pia has sent records without a transaction before",
        ),
        ("delete znode /nothing", "line 4: delete znode /nothing: /nothing"),
    ],
)
def test_what_cannot_be_done_is_named_with_its_line(lines: str, reason: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        replay(parse(f"# It cannot\n\nbrokers 1\n{lines}\n"), lambda line: None)
    assert reason in str(raised.value)


def test_every_phrase_and_every_old_rule_says_what_it_means() -> None:
    described = [*verbs.described(), *conditions.described()]
    assert len(described) > 30 and all(meaning.endswith(".") for _, meaning in described)
    assert all(rule.says.endswith(".") for rule in old_rules.OLD_RULES.values())


def test_a_slot_takes_what_its_name_says() -> None:
    assert Phrase("wait {duration}").match("wait 10 s") == {"duration": 10_000}
    assert Phrase("wait {duration}").match("wait 10 h") is None
    assert Phrase("{count} partition(s)").match("1 partition") == {"count": 1}
    assert Phrase("{name} sends {values} to {tp}").match("pia sends a b to x.y-3") == {
        "name": "pia", "values": ["a", "b"], "tp": ("x.y", 3),
    }  # fmt: skip


def test_an_old_rule_is_in_place_for_its_play_only() -> None:
    ours = GroupDriver._take, ReplicaManager.accept_controller
    for name in old_rules.OLD_RULES:
        with old_rules.in_place(name):
            pass
    with old_rules.in_place("every_controller_is_obeyed"):
        assert ReplicaManager.accept_controller is not ours[1]
    assert (GroupDriver._take, ReplicaManager.accept_controller) == ours


def test_a_failed_expectation_does_not_end_the_scenario() -> None:
    played = replay(parse(f"{SMALL}expect broker-1 leads t-0\nwait 1 s\nexpect broker-1 serves\n"), lambda line: None)
    assert [line.number for line in played.failed] == [5]
    assert played.trace[-1].endswith("ok: expect broker-1 serves")


def test_a_shrunk_seed_is_a_scenario() -> None:
    text = as_scenario(7, [Fault(3_000, "kill", "broker-1", 500)], None, "a record is lost")
    scenario = parse(text)
    assert scenario.title == "Seed 7: a record is lost" and scenario.plays == (OURS,)
    assert scenario.campaign is not None and scenario.campaign.plan == (Fault(3_000, "kill", "broker-1", 500),)
    assert parse(as_scenario(7, [], "no_lease", "two owners")).plays == (OLD, OURS)


@pytest.mark.integration  # seconds of work in one process
def test_the_run_of_a_seed_is_replayed() -> None:
    played = replay(parse(as_scenario(7, [Fault(3_000, "kill", "broker-1", 500)], None, "nothing")), lambda line: None)
    assert not played.failed
    assert any("3000 kill broker-1 500" in line for line in played.trace)


# -- the command --------------------------------------------------------------------------------------------------


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_the_command_tells_a_scenario_and_keeps_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "small.txt"
    path.write_text(SMALL)
    first = run("--write", str(path))
    assert first.exit_code == 0 and "is elected controller, epoch 1" in first.output
    assert "ok: expect broker-1 is the controller" in path.read_text()
    assert run(str(path)).exit_code == 0
    path.write_text(path.read_text().replace("epoch 1", "epoch 9"))
    changed = run(str(path))
    assert changed.exit_code == 1 and "the trace differs from the one in the file" in changed.output


def test_the_command_as_json(tmp_path: Path) -> None:
    path = tmp_path / "small.txt"
    path.write_text(f"{SMALL}expect broker-1 leads t-0\n")
    shown = run("--json", str(path))
    lines = [json.loads(line) for line in shown.output.splitlines() if line.startswith("{")]
    assert shown.exit_code == 1 and {line["kind"] for line in lines} == {"command", "fact", "held", "failed", "end"}
    assert lines[-1]["failed"] == [{"play": "ours", "number": 5, "text": "expect broker-1 leads t-0"}]
    assert lines[-1]["trace"] == "absent"


def test_the_command_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(f"{SMALL}paus broker-1\n")
    assert "line 5" in run(str(path)).output and run(str(path)).exit_code == 2
    path.write_bytes(b"\xff\xfe\x00")
    assert "is not a text file" in run(str(path)).output
    unknown = run("zombie-controler")
    assert unknown.exit_code == 1 and "did you mean zombie-controller?" in unknown.output


def test_the_command_lists_scenarios_and_phrases() -> None:
    assert "zombie-controller" in run().output
    assert "pause {name}" in run("--phrases").output
    assert "no_lease" in run("--phrases", "--json").output
