"""Records of a live cluster: batches between two samples, and what offsets prove."""

from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.samples import Sample
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.web.record_batches import MOST_BATCHES, batches_of
from kafka_zk.recorder.web.records import PartitionRecords, faults_in
from tests.kafka_zk.recorder.web.large_cluster import BEGIN_MS, large_cluster


def samples(*values: int | None) -> list[Sample]:
    return [Sample(1_000 * number, value) for number, value in enumerate(values)]


def squares(found: PartitionRecords | None) -> list[str]:
    """A line for each row."""
    assert found is not None
    return [
        " ".join(f"{each.value}-{each.state}{'!' if each.fault else ''}" if each else "." for each in row.squares)
        for row in found.rows
    ]


def test_a_batch_is_what_came_between_two_samples() -> None:
    found = batches_of("t-0", samples(5, 7, None, 12), {"g": samples(0, 6)})
    assert squares(found) == ["+2-passed +5-passed", "1-read ."]
    assert found is not None and found.columns == ("5", "7")
    assert [(row.name, row.note, row.older_count) for row in found.rows] == [
        ("high watermark", "12", 5), ("group g", "committed 6", 5)
    ]  # fmt: skip
    assert squares(batches_of("t-0", samples(5, 7, 12), {"g": samples(12)}))[1] == "-committed -committed"
    assert batches_of("t-0", samples(None), {}) is None


def test_only_offsets_that_went_back_are_red() -> None:
    found = batches_of("t-0", samples(0, 10, 6, 9), {"g": samples(8, 2)})
    assert squares(found) == ["+10-passed -4-gone! +3-passed", "-back! . -back!"]
    assert found is not None and faults_in([found])[0] == (
        "The high watermark went back from 10 to 6: offsets 6 to 9 are gone, or are other records now."
    )
    assert found.rows[1].note == "committed 2, before 8"


def test_old_batches_are_counted() -> None:
    found = batches_of("t-0", samples(*range(0, 10 * (MOST_BATCHES + 3), 10)), {})
    assert found is not None and len(found.columns) == MOST_BATCHES and found.rows[0].older_count == 20


def test_samples_of_a_deleted_topic_are_not_those_of_the_next_one() -> None:
    """No batches are shown for times when brokers were not asked; a filter chooses partitions."""
    recording = Recording()
    recording.add([], large_cluster(3, 1, 2))
    last_ms = (recording.entries.times() or (0, 0))[1]
    name = "topic-00-1"
    recording.samples.add(BEGIN_MS - 1_000, {f"end {name}": 900})
    for number, end in enumerate((3, 5)):
        recording.samples.add(last_ms + number, {f"end {name}": end, "sampled": number, "turns": 1})
    api = RecordingApi(recording)
    moment = {"seq": str(recording.entries.count), "time_ms": str(last_ms + 1)}
    [play] = api.state(moment)["batches"]
    [partition] = play["partitions"]
    assert (partition["name"], partition["rows"][0]["note"], play["is_wrong"]) == (name, "5", False)
    assert api.state({**moment, "name": "topic-00-0"})["batches"] == []
    assert api.state({**moment, "time_ms": str(last_ms + 60_000)})["batches"] == []
