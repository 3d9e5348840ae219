"""A scenario as a recording: its steps, its two runs in sequence, and the recording's responses."""

import json
from pathlib import Path

import pytest

from kafka_zk.recorder.page_export.page_data import page_data
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.entries import SESSION_ENDED
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.sim.replay.recorded import record
from kafka_zk.sim.scenarios import library
from kafka_zk.sim.scenarios.scenario import parse
from tests.kafka_zk.recorder.page_export.replay import replayed


@pytest.fixture(scope="module")
def played() -> RecordingApi:
    recording = Recording()
    record(parse(library.built_in()["zombie-controller"].read_text()), recording)
    return RecordingApi(recording)


def test_each_step_goes_on_where_the_one_before_ended(played: RecordingApi) -> None:
    steps = played.lesson({})["steps"]
    [second] = [number for number, step in enumerate(steps) if step["text"] == "brokers 3"][1:]
    for play in (steps[:second], steps[second:]):
        assert [step["seq"] for step in play[:-1]] == [step["from_seq"] for step in play[1:]]
    shown = [played.state({"seq": str(steps[at]["seq"])})["cluster"] for at in (0, second - 1, second)]
    assert [len(cluster["brokers"]) for cluster in shown] == [3, 3, 3]
    cleared = played.state({"seq": str(steps[second]["from_seq"])})["cluster"]
    assert (cleared["brokers"], cleared["topics"]) == ([], []), "the second cluster begins with nothing"


def test_the_new_controller_is_asked_for_and_is_the_one_that_the_recording_shows(played: RecordingApi) -> None:
    steps = played.lesson({})["steps"]
    number = next(at for at, step in enumerate(steps) if "another broker than broker-1" in step["text"])
    question = played.question({"step": str(number)})["question"]
    controller = played.state({"seq": str(steps[number]["seq"])})["cluster"]["controller"]["broker"]
    assert (question["text"], question["answer"]) == ("Which broker is the controller now?", f"broker {controller}")
    assert {"broker 1", "broker 2", "broker 3", "none"} == set(question["options"])
    assert steps[number]["happened"]


def test_what_processes_tell_follows_from_what_zookeeper_has(played: RecordingApi) -> None:
    """Every watch that fired has its change, as in a recording of a live cluster."""
    entries = played.entries({"from_ms": "0", "to_ms": str(9 * 10**12)})["entries"]
    fired = [each for each in entries if each["kind"] == "WatchFired" and not each["line"].startswith("lost ")]
    assert fired
    assert [each["line"] for each in fired if each["cause"] is None or not each["certain"]] == []


def test_the_session_of_a_paused_broker_expires(played: RecordingApi) -> None:
    entries = played.entries({"from_ms": "0", "to_ms": str(9 * 10**12)})["entries"]
    ended = [each["line"] for each in entries if each["kind"] == SESSION_ENDED]
    assert set(ended) == {"the session of broker-1 ended: it expired"}


def test_what_was_done_in_the_run_of_a_seed_are_its_steps() -> None:
    """Each step begins where the previous one ended, and shows the cluster as it was when the action was done."""
    recording = Recording()
    record(parse("# A run\n\nplay seed 7\nexpect the judges find nothing\n"), recording)
    api = RecordingApi(recording)
    steps = api.lesson({})["steps"]
    assert len(steps) > 5
    assert [step["seq"] for step in steps[:-1]] == [step["from_seq"] for step in steps[1:]]
    assert (steps[-1]["kind"], steps[-1]["seq"]) == ("held", recording.entries.count)
    assert [step["from_seq"] for step in steps] == sorted(step["from_seq"] for step in steps)
    shown = [len(api.state({"seq": str(step["from_seq"])})["cluster"]["brokers"]) for step in steps if step["from_seq"]]
    assert max(shown) == 3
    assert any(api.question({"step": str(number)})["question"] for number in range(len(steps)))


@pytest.mark.parametrize("path", library.built_in().values(), ids=lambda path: path.stem)
def test_every_built_in_scenario_has_steps_and_a_question(path: Path) -> None:
    scenario = parse(path.read_text())
    if scenario.campaign is not None:
        return
    recording = Recording()
    record(scenario, recording)
    api = RecordingApi(recording)
    steps = api.lesson({})["steps"]
    assert any(api.question({"step": str(number)})["question"] for number in range(len(steps)))


# -- records ------------------------------------------------------------------------------------------------------


def recorded(name: str) -> Recording:
    recording = Recording()
    record(parse(library.built_in()[name].read_text()), recording)
    return recording


def at_the_end(name: str) -> tuple[Document, Document]:
    """Both runs of an exhibit."""
    recording = recorded(name)
    old, ours = RecordingApi(recording).records({"seq": str(recording.entries.count)})["plays"]
    return old, ours


def red(play: Document) -> set[tuple[str, str]]:
    rows = [row for partition in play["partitions"] for row in partition["rows"]]
    return {(row["name"], each["value"]) for row in rows for each in row["squares"] if each and each["fault"]}


def test_the_disaster_of_the_zombie_controller_is_seen_when_it_happens(played: RecordingApi) -> None:
    """The records turn red in the step in which the old controller's request arrives; with our rule they stay."""
    steps = played.lesson({})["steps"]
    late = next(at for at, each in enumerate(steps) if each["text"] == "heal the network")
    [before], [after] = (
        [each for each in played.records({"seq": str(steps[at]["seq"])})["plays"] if each["is_shown"]]
        for at in (late - 1, late + 1)
    )
    assert not red(before) and not before["said"]
    told = {("acknowledged", value) for value in "abc"}
    assert red(after) == told | {("broker 3", value) for value in "abc"}
    assert after["said"].startswith("a, b and c are lost") and after["rule"].startswith("A broker obeys every")
    assert not after["conclusion"], "the play is not over"
    old, ours = played.records({})["plays"]
    assert (old["is_wrong"], ours["is_wrong"], ours["is_shown"]) == (True, False, True)
    assert ours["said"].startswith("The judges find nothing") and ours["conclusion"].startswith("A broker that refuses")


def test_both_plays_are_shown_at_the_same_step(played: RecordingApi) -> None:
    """Neither run is ahead of the other, whichever the reader looks at."""
    steps = played.lesson({})["steps"]
    for number in {step["number"] for step in steps if step["number"] and step["play"] == "with our rule"}:
        own = [step["seq"] for step in steps if step["number"] == number]
        shown = [[each["partitions"] for each in played.records({"seq": str(seq)})["plays"]] for seq in own]
        assert shown[0] == shown[-1], number


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("truncation-by-watermark", "b is lost: acknowledged, but no longer in the leader's log."),
        ("two-logs", "x and y are written twice in the same log."),
        ("long-pause", "f, g and h are read twice, which the other rule prevents."),
        ("lost-watch", "a and b are not read by any member."),
        ("torn-transaction", "debit is left out of a committed transaction: readers of committed records"),
        ("herd-effect", "The judges find: the group read registrations 72 times, although 23 reads are enough."),
    ],
)
def test_an_exhibit_shows_its_fault_beside_the_rule_without_it(name: str, said: str) -> None:
    old, ours = at_the_end(name)
    assert said in old["said"] and not red(ours)


def test_a_commit_that_went_back_is_seen_at_its_moment() -> None:
    recording = recorded("overtaken-commit")
    api = RecordingApi(recording)
    shown = [api.records({"seq": str(seq)})["plays"][0]["said"] for seq in range(1, recording.entries.count)]
    assert "The committed offset of flights-0 went back from 3 to 0." in shown


def test_records_of_a_topic_that_was_deleted_are_not_those_of_the_next_one() -> None:
    recording = recorded("deletion-at-failover")
    [*_, ours] = RecordingApi(recording).records({})["plays"]
    told = ours["partitions"][0]["rows"][0]["squares"]
    assert "a" not in [each["value"] for each in told if each] and not red(ours)


def test_an_exported_page_has_the_records_of_each_moment(played: RecordingApi) -> None:
    recording = recorded("zombie-controller")
    data = page_data(recording, "a test")
    for seq in range(1, recording.entries.count + 1, 7):
        whole = data["wholes"][seq - 1]
        live = played.records({"seq": str(seq)})["plays"]
        assert json.loads(json.dumps(live)) == replayed(data["records"], whole)
