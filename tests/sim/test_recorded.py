"""A scenario as a recording: its steps, its two plays one after the other, and questions that the recording answers."""

from pathlib import Path

import pytest

from kafka_zk.recorder.recording.entries import SESSION_ENDED
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.sim.replay.recorded import record
from kafka_zk.sim.scenarios import library
from kafka_zk.sim.scenarios.scenario import parse


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
    """Each begins where the one before ended; at each the cluster is what it was when that was done."""
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
