"""Finds the records that a recording knows at a moment, in the shown run of a scenario and in the other run beside
it.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from kafka_zk.base.integers import NATURAL_INT64, decimal_integer
from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.entries import CREATED
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.event_codec import UnknownEvent, decode
from kafka_zk.recorder.timeline.record_events import RecordEvent, ReplicaSeen
from kafka_zk.recorder.web.cluster_view import cluster_document
from kafka_zk.recorder.web.lesson_steps import Step
from kafka_zk.recorder.web.record_batches import batches_of
from kafka_zk.recorder.web.records import MOST_PARTITIONS, Commit, PartitionRecords, Seen, faults_in, records_of
from kafka_zk.recorder.web.verdicts import Verdict
from kafka_zk.registry.znodes.consumers import offset_path
from kafka_zk.registry.znodes.topics import TOPICS, topic_path

MOST_EVENTS = 20_000
_MOST_CHANGES = 100
_MOST_TRIED, _MOST_GROUPS, _MOST_SAMPLES = 60, 20, 100
"""Limits for a live cluster: partitions whose samples are looked up, groups, and samples of each series."""
_MOST_FOUND = 2
"""Number of the judges' findings that are shown; the lesson's steps contain the others."""


class Part(NamedTuple):
    """A run of a scenario (a *play*), or a chapter of a lesson, with a cluster of its own. ``first``: the entry before
    the part."""

    name: str
    first: int
    last: int
    steps: tuple[Step, ...]


def parts_of(steps: Iterable[Step]) -> list[Part]:
    by_play: dict[str, list[Step]] = {}
    for step in steps:
        by_play.setdefault(step.play, []).append(step)
    return [Part(name, own[0].from_seq, own[-1].seq, tuple(own)) for name, own in by_play.items()]


def record_plays(
    recording: Recording, steps: Iterable[Step], verdicts: Mapping[str, Verdict], seq: int
) -> list[Document]:
    """Empty if no process reports single records. Two runs of a scenario are shown side by side, at the same step."""
    parts = parts_of(steps)
    shown = next((each for each in reversed(parts) if each.first < seq), parts[0] if parts else None)
    if shown is None or not recording.entries.of_records(shown.first + 1, shown.last, 1):
        return []
    beside = parts if len(parts) == len(verdicts) == 2 else [shown]
    is_over = seq >= shown.last
    found = []
    for part in beside:
        at = seq if part is shown else _same_moment(recording, shown, part, seq)
        found.append({**_play(recording, part, at, verdicts.get(part.name), is_over), "is_shown": part is shown})
    return found


def _same_moment(recording: Recording, shown: Part, other: Part, seq: int) -> int:
    """The entry of the other run after the same steps, and after the same time within the step."""
    done = [each.number for each in takewhile(lambda each: each.seq <= seq, shown.steps)]
    reached = max(done, default=0)
    begin = max((each.seq for each in other.steps if 0 < each.number <= reached), default=other.first)
    after = [each.seq for each in other.steps if each.number > reached]
    if any(each.seq == seq for each in shown.steps) or seq <= shown.first or not after:
        return begin
    elapsed_ms = _time_ms(recording, seq) - _time_ms(recording, shown.first + 1)
    then = recording.entries.seq_at(_time_ms(recording, other.first + 1) + elapsed_ms)
    return min(max(then, begin), after[0])


def _time_ms(recording: Recording, seq: int) -> int:
    entry = recording.entries.entry(seq)
    return 0 if entry is None else entry.time_ms


def _play(recording: Recording, part: Part, seq: int, verdict: Verdict | None, is_over: bool) -> Document:
    partitions = records_of(_seen(recording, part, min(seq, part.last), verdict, is_over)) if seq > part.first else []
    return {
        "name": part.name,
        "said": _said(partitions, verdict, is_over),
        "is_wrong": bool(faults_in(partitions)),
        "rule": verdict.rule if verdict is not None else "",
        "conclusion": verdict.conclusion if verdict is not None and is_over else "",
        "partitions": [_document(each) for each in partitions],
    }


def sampled_records(recording: Recording, cluster: Document, seq: int, time_ms: int, filtered: str) -> list[Document]:
    """Batches until ``time_ms`` of the first partitions in the cluster's document that have samples and whose name
    contains ``filtered``.
    """
    groups = [each["name"] for each in (*cluster["groups"], *cluster["coordinated"])][:_MOST_GROUPS]
    named = [
        (topic["name"], f"{topic['name']}-{each['partition']}")
        for topic in cluster["topics"]
        for each in topic["partitions"]
        if filtered in f"{topic['name']}-{each['partition']}"
    ]
    found: list[PartitionRecords] = []
    for topic, name in named[:_MOST_TRIED]:
        since_ms = _time_ms(recording, _created(recording, topic, seq, 0))
        latest = partial(recording.samples.latest, from_ms=since_ms, to_ms=time_ms, limit=_MOST_SAMPLES)
        if not (ends := latest(f"end {name}")):
            continue
        commits = {group: own for group in groups if (own := latest(f"committed {group}: {name}"))}
        if (partition := batches_of(name, ends, commits)) is not None:
            found.append(partition)
        if len(found) == MOST_PARTITIONS:
            break
    said = faults_in(found)
    play = {"name": "", "said": " ".join(said), "is_wrong": bool(said), "rule": "", "conclusion": "", "is_shown": True}
    return [{**play, "partitions": [_document(each) for each in found]}] if found else []


def _document(partition: PartitionRecords) -> Document:
    """The partition as JSON, with lists instead of tuples, because an exported page can patch lists."""
    rows = [
        {**row._asdict(), "squares": [None if each is None else each._asdict() for each in row.squares]}
        for row in partition.rows
    ]
    return {"name": partition.name, "columns": list(partition.columns), "rows": rows}


def _said(partitions: Iterable[PartitionRecords], verdict: Verdict | None, is_over: bool) -> str:
    if faults := faults_in(partitions):
        return " ".join(faults)
    if verdict is None or not is_over:
        return ""
    if not verdict.found:
        return "The judges find nothing: no record is lost or duplicated."
    more = len(verdict.found) - _MOST_FOUND
    return f"The judges find: {'; '.join(verdict.found[:_MOST_FOUND])}{f'; and {more} more' if more > 0 else ''}."


def _seen(recording: Recording, part: Part, seq: int, verdict: Verdict | None, is_over: bool) -> Seen:
    znodes = recording.znodes.after(recording.entries.whole(seq)).znodes
    topics = {path.removeprefix(f"{TOPICS}/").partition("/")[0] for path in znodes if path.startswith(f"{TOPICS}/")}
    cluster = cluster_document(znodes, topics)
    since = {topic: _created(recording, topic, seq, part.first) for topic in topics}
    events = [
        event
        for event_seq, event in _events(recording, part.first + 1, seq)
        if isinstance(event, ReplicaSeen) or event_seq >= since.get(event.partition.topic, 0)
    ]
    found = () if verdict is None else verdict.found
    commits = {
        (group["name"], tp): _commit(recording, group["name"], tp, part.first, seq, found)
        for group in cluster["groups"]
        for tp in map(_tp, group["offsets"])
    }
    return Seen(events, cluster, commits, () if verdict is None else verdict.faults, is_over)


def _created(recording: Recording, topic: str, seq: int, first: int) -> int:
    """The entry that created the topic: earlier records belong to another topic of this name."""
    changes = recording.entries.changes_of(topic_path(topic), seq, _MOST_CHANGES)
    return next((each.seq for each in changes if each.kind == CREATED), first)


def _events(recording: Recording, first: int, last: int) -> Iterable[tuple[int, RecordEvent]]:
    for entry in recording.entries.of_records(first, last, MOST_EVENTS):
        try:
            event = decode(entry.document)
        except UnknownEvent:
            continue
        if isinstance(event, RecordEvent):
            yield entry.seq, event


def _commit(recording: Recording, group: str, tp: TopicPartition, first: int, seq: int, found: Iterable[str]) -> Commit:
    changes = recording.entries.changes_of(offset_path(group, tp.topic, tp.partition), seq, _MOST_CHANGES)
    texts = [each.document["after"][0] or "" for each in changes if each.seq > first and each.document["after"]]
    offsets = [offset for text in texts if (offset := decimal_integer(text, NATURAL_INT64)) is not None]
    is_fault = any(f"the offset of {tp} went back" in each for each in found)
    return Commit(offsets[0] if offsets else 0, max(offsets, default=0), is_fault)


def _tp(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))
