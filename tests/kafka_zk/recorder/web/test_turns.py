"""However many partitions there are, each has its turn, and no value is older than its reported age."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import SAMPLING_PAUSE_MS, RecordingApi
from kafka_zk.recorder.web.turns import MOST_PARTITIONS, Turns
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Transaction

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LED = {T0: "broker 0", T1: "broker 1"}
TOPIC = b'{"version":1,"partitions":{"0":[0]}}'
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[1]}'


def test_beyond_one_turn_all_partitions_are_asked_about_in_turns() -> None:
    turns = Turns()
    leaders = {TopicPartition(f"t{number % 7}", number): "broker 0" for number in range(2 * MOST_PARTITIONS + 1)}
    asked = [turns.next(leaders) for _ in range(6)]
    assert turns.count == 3 and max(map(len, asked)) == MOST_PARTITIONS
    assert {tp for turn in asked[:3] for tp in turn} == {tp for turn in asked[3:] for tp in turn} == set(leaders)


def test_sums_of_which_a_part_is_unknown_are_unknown() -> None:
    told = Turns().take(LED, {T0: 5, T1: 7}, {("g", T0): 3, ("g", T1): 9, ("g", TopicPartition("u", 0)): 1})
    assert {name: value for name, value in told.items() if " " in name} == {
        "end t-0": 5, "end t-1": 7, "ends t": 12, "committed g: t-0": 3, "committed g: t-1": 9, "lag g: t": 2
    }  # fmt: skip
    silent = Turns().take(LED, {T0: 5, T1: None}, {("g", T1): 9})
    assert (silent["end t-1"], silent["ends t"], silent["lag g: t"]) == (None, None, None)
    assert Turns().take(LED, {T0: 5}, {})["ends t"] is None, "the sum is known, although one partition had no turn yet"


def test_a_turn_adds_to_what_earlier_turns_found_and_a_deleted_partition_ends() -> None:
    turns = Turns()
    turns.take(LED, {T0: 5}, {})
    assert turns.take(LED, {T1: 7}, {("g", T0): 3})["ends t"] == 12
    told = turns.take({T0: "broker 0"}, {}, {})
    assert (told["end t-1"], told["ends t"]) == (None, 5)
    assert turns.take({}, {}, {})["ends t"] is None


def test_no_number_is_shown_without_its_age_and_none_after_a_pause() -> None:
    recording = Recording()
    created = {"/brokers/topics/t": TOPIC, "/brokers/topics/t/partitions/0/state": STATE}
    for zxid, (path, data) in enumerate(created.items(), 1):
        recording.add([], [Transaction(zxid, zxid, 7, (Created(path, data, False),))])
    recording.samples.add(10_000, {"end t-0": 40, "turns": 11, "sampled": 1})
    recording.samples.add(20_000, {"turns": 11, "sampled": 2})
    api = RecordingApi(recording)
    told = api.state({"time_ms": "20500"})
    assert (told["measured"], told["age_ms"]) == ({"end t-0": 40}, 10_500)
    later = api.state({"time_ms": str(20_001 + SAMPLING_PAUSE_MS)})
    assert (later["measured"], later["age_ms"]) == ({}, None), "numbers are shown although the recorder did not run"
    between = api.samples({"from_ms": "0", "to_ms": "20500"})
    assert (between["sampled_ms"], between["turns"]) == (20_000, 11)


def test_the_offsets_of_a_group_that_is_gone_or_does_not_answer_become_unknown() -> None:
    turns = Turns()
    turns.take(LED, {T0: 5, T1: 7}, {("g", T0): 3, ("h", T0): 5})
    told = turns.take(LED, {T0: 6}, {("h", T0): 5})
    assert (told["committed g: t-0"], told["lag g: t"]) == (None, None)
    assert (told["committed h: t-0"], told["lag h: t"]) == (5, 1)
    assert "committed g: t-0" not in turns.take(LED, {T0: 6}, {("h", T0): 5}), "it ends once"
