"""The findings of ``examine``, one at a time, in a tier that is otherwise clean."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.layout import ExpectedObject
from kafka_zk.storage.tiered.local_tiered_storage import LocalTieredStorageLayout
from kafka_zk.storage.tiered.metadata_partition import metadata_partition
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogMetadata
from kafka_zk.storage.tiered.segment_manifest import ManifestSizes
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from kafka_zk.storage.tiered.tier_check import Finding, Kind, LogFacts, TierFacts, TopicFacts, examine
from tests.storage.tiered.segments import DELETED, DELETING, FINISHED, T, segment, update

HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS
LAYOUT = LocalTieredStorageLayout()
SEGMENTS = [segment(1, 0, 9), segment(2, 10, 19), segment(3, 20, 29)]


def key(of: RemoteLogSegmentMetadata, suffix: str = ".log") -> str:
    [found] = [each.key for each in LAYOUT.objects(of, None) if each.key.endswith(suffix)]
    return found


def size(each: ExpectedObject) -> int:
    return each.size_bytes or 7


def clean(*more: RemoteLogSegmentMetadata) -> TierFacts:
    """Three finished segments of offsets 0 to 29, and ``more`` that were begun; the leader has the rest."""
    metadata = RemoteLogMetadata()
    for each in SEGMENTS:
        metadata.apply(each)
        metadata.apply(update(each, FINISHED))
    for each in more:
        metadata.apply(each)
    objects = {each.key: size(each) for of in SEGMENTS for each in LAYOUT.objects(of, None) if each.is_required}
    logs = {T: LogFacts(0, 30, [(0, 0)])}
    return TierFacts(NOW_MS, HOUR_MS, {T.topic_id: TopicFacts("t", True)}, logs, metadata, LAYOUT, objects)


def only(facts: TierFacts) -> Finding:
    [found] = examine(facts).findings
    return found


def test_clean_tier_has_no_findings() -> None:
    """Everything is counted, including segments that start before the local log ends."""
    examined = examine(clean())
    assert (examined.findings, examined.not_checked) == ([], [])
    assert (examined.segment_count, examined.segment_bytes, examined.unreachable_count) == (3, 300, 0)


@pytest.mark.parametrize("suffix", [".log", ".index", ".snapshot"])
def test_missing_object_is_found(suffix: str) -> None:
    """The copy is dangling: the metadata say that it was finished."""
    facts = clean()
    objects = {name: size for name, size in facts.objects.items() if name != key(SEGMENTS[1], suffix)}
    found = only(replace(facts, objects=objects))
    assert (found.kind, found.keys, found.partition) == (Kind.MISSING, (key(SEGMENTS[1], suffix),), 0)
    assert "offsets 10 to 19" in found.said


def test_lost_segment_is_one_finding() -> None:
    """The number of its objects does not matter."""
    lost = {each.key for each in LAYOUT.objects(SEGMENTS[1], None)}
    facts = clean()
    found = only(replace(facts, objects={name: size for name, size in facts.objects.items() if name not in lost}))
    assert (found.kind, len(found.keys)) == (Kind.MISSING, 5)
    assert found.said.endswith("and 4 more objects do not exist")


def test_truncated_object_is_found() -> None:
    facts = clean()
    found = only(replace(facts, objects={**facts.objects, key(SEGMENTS[0]): 99}))
    assert (found.kind, found.size_bytes) == (Kind.SIZE, 99)


def test_orphans_are_counted_by_partition() -> None:
    """A crash between upload and record, or a loss of records, leaves objects of a segment without metadata."""
    facts = clean()
    lost = [each.key for each in LAYOUT.objects(segment(9, 40, 49), None)]
    found = only(replace(facts, objects={**facts.objects, **dict.fromkeys(lost, 10)}))
    assert (found.kind, found.topic, found.partition, found.size_bytes) == (Kind.ORPHAN, "t", 0, 60)
    assert found.keys == tuple(sorted(lost))


def test_foreign_objects_are_orphans_of_no_topic() -> None:
    facts = clean()
    found = only(replace(facts, objects={**facts.objects, "kafka-tiered-storage/notes.txt": 5}))
    assert (found.kind, found.topic, found.size_bytes) == (Kind.ORPHAN, "", 5)


def test_objects_of_a_deleted_segment_are_orphans() -> None:
    """The segment's metadata say DELETE_SEGMENT_FINISHED, so no broker will ever delete the objects."""
    facts = clean()
    for state in (DELETING, DELETED):
        facts.metadata.apply(update(SEGMENTS[0], state))
    found = only(replace(facts, logs={T: LogFacts(10, 30, [(0, 0)])}))
    assert (found.kind, found.size_bytes) == (Kind.ORPHAN, 100 + 4 * 7)


def test_gap_is_found() -> None:
    """The leader's log begins at 35, the tier ends at 29."""
    found = only(replace(clean(), logs={T: LogFacts(0, 35, [(0, 0)])}))
    assert found.kind is Kind.GAP and "offsets 30 to 34" in found.said


def test_offsets_of_another_lineage_are_a_gap() -> None:
    """The leader's log has epoch 1 from 20 on; the tier has these offsets of epoch 0 only."""
    examined = examine(replace(clean(), logs={T: LogFacts(0, 30, [(0, 0), (1, 20)])}))
    assert [each.said.partition(" are")[0] for each in examined.findings] == ["offsets 20 to 29"]


@pytest.mark.parametrize(("age_ms", "count"), [(HOUR_MS - 1, 0), (HOUR_MS, 1)])
def test_copy_is_unfinished_after_some_time(age_ms: int, count: int) -> None:
    """Until then, its objects are not orphans (KAFKA-17062)."""
    facts = clean(begun := segment(4, 30, 39, at_ms=NOW_MS - age_ms))
    examined = examine(replace(facts, objects={**facts.objects, key(begun): 55}))
    assert [(each.kind, each.size_bytes) for each in examined.findings] == [(Kind.UNFINISHED_COPY, 55)] * count


def test_deletion_is_unfinished_after_some_time() -> None:
    facts = replace(clean(), logs={T: LogFacts(10, 30, [(0, 0)])})
    facts.metadata.apply(update(SEGMENTS[0], DELETING, NOW_MS - HOUR_MS))
    assert only(facts).kind is Kind.UNFINISHED_DELETE


def test_tiering_that_was_turned_off_is_a_trap() -> None:
    """Brokers in ZooKeeper mode accept it, although segments remain."""
    found = only(replace(clean(), topics={T.topic_id: TopicFacts("t", False)}))
    assert (found.kind, found.topic, found.partition, found.size_bytes) == (Kind.TRAP, "t", None, 300)


def test_leftovers_of_a_deleted_topic_are_one_finding() -> None:
    """The finding counts the bytes of all objects. There are no findings of gaps or missing objects."""
    found = only(replace(clean(), topics={UUID(int=5): TopicFacts("t", True)}, logs={}))
    assert (found.kind, found.size_bytes, len(found.keys)) == (Kind.DELETED_TOPIC, 3 * (100 + 4 * 7), 15)


def test_replaced_segments_are_counted_only() -> None:
    """Retention deletes replaced segments."""
    facts = clean()
    bigger = segment(4, 10, 29)
    facts.metadata.apply(bigger)
    facts.metadata.apply(update(bigger, FINISHED))
    objects = {**facts.objects, **{each.key: size(each) for each in LAYOUT.objects(bigger, None)}}
    examined = examine(replace(facts, objects=objects))
    assert (examined.findings, examined.unreachable_count, examined.unreachable_bytes) == ([], 2, 200)


def test_what_is_not_known_is_not_checked() -> None:
    """Here, a leader does not respond."""
    examined = examine(replace(clean(), logs={T: "no leader"}))
    assert (examined.findings, examined.not_checked) == ([], ["gaps of t-0: no leader"])


def test_limit_to_topics_hides_what_belongs_to_others() -> None:
    """The limit hides orphans and traps of other topics, and foreign objects."""
    facts = clean()
    other = replace(segment(9, 0, 9), segment_id=segment(9, 0, 9, tp=T._replace(topic_id=UUID(int=7))).segment_id)
    objects = {**facts.objects, **{each.key: 1 for each in LAYOUT.objects(other, None)}, "x": 1}
    assert examine(replace(facts, objects=objects, only=frozenset((T.topic_id,)))).findings == []
    assert examine(replace(facts, objects={}, only=frozenset((UUID(int=7),)))).findings == []


@pytest.mark.parametrize(
    ("manifest", "kinds"),
    [
        (ManifestSizes("", 100, 60, 5), []),
        (ManifestSizes("", 100, 61, 5), [Kind.SIZE]),
        (ManifestSizes("", 100, 60, 6), [Kind.SIZE]),
        (ManifestSizes("", 99, 60, 5), [Kind.SIZE]),
        ("not a manifest", [Kind.SIZE]),
        (None, []),
    ],
)
def test_sizes_of_aivens_plugin_are_those_of_the_manifest(
    manifest: ManifestSizes | str | None, kinds: list[Kind]
) -> None:
    layout = AivenLayout("p/")
    sizes = {".log": 60, ".indexes": 5, ".rsm-manifest": 900}
    objects = {f"{_stem(layout, each)}{suffix}": size for each in SEGMENTS for suffix, size in sizes.items()}
    manifests: dict[UUID, Any] = {} if manifest is None else {SEGMENTS[0].segment_id.id: manifest}
    examined = examine(replace(clean(), layout=layout, objects=objects, manifests=manifests))
    assert [each.kind for each in examined.findings] == kinds


def _stem(layout: AivenLayout, of: RemoteLogSegmentMetadata) -> str:
    return layout.objects(of, None)[0].key.removesuffix(".log")


def test_objects_below_another_prefix_are_not_checked() -> None:
    """The plugin's key.prefix was changed, and the custom metadata name the old one."""
    facts = clean(replace(segment(4, 30, 39), custom_metadata=b"\x01\x01\x05\x05old/"))
    facts.metadata.apply(update(segment(4, 30, 39), FINISHED))
    layout = AivenLayout("p/")
    objects = {each.key: 1 for of in SEGMENTS for each in layout.objects(of, None)}
    examined = examine(replace(facts, layout=layout, objects=objects))
    assert examined.findings == []
    assert examined.not_checked == ["3 objects of t-0 have a prefix other than 'p/'"]


def twice(first: TierFacts, second: TierFacts) -> list[Finding]:
    return examine(second, examine(first)).findings


def test_second_look_confirms_the_first() -> None:
    """Findings are compared by subject, not by text. A finding of only one look was a change in progress."""
    cut, gone = ({**clean().objects, key(SEGMENTS[0]): size} for size in (99, 98))
    assert [each.said for each in twice(replace(clean(), objects=cut), replace(clean(), objects=gone))] == [
        f"offsets 0 to 9: {key(SEGMENTS[0])} has 98 bytes, but was copied with 100"
    ]
    assert twice(clean(), replace(clean(), objects=gone)) == []


def test_only_keys_that_both_looks_have_are_orphans() -> None:
    """While a partition copies continuously, each look sees another segment in flight."""
    facts = clean()
    first, second, always = (key(segment(number, 40, 49)) for number in (7, 8, 9))
    looks = [
        replace(facts, objects={**facts.objects, **dict.fromkeys(keys, 10)}) for keys in ((first, always), (second,))
    ]
    assert twice(*looks) == []
    both = replace(facts, objects={**looks[1].objects, always: 10})
    [found] = twice(looks[0], both)
    assert (found.keys, found.size_bytes, found.said) == ((always,), 10, f"1 objects of no known segment: {always}")


@pytest.mark.parametrize(
    ("starts", "gaps"),
    [
        ((0, 5), ["5 to 9", "30 to 34"]),
        ((5, 0), ["5 to 9", "30 to 34"]),
        ((32, 33), ["33 to 34"]),
        ((0, 35), []),
    ],
)  # fmt: skip
def test_offsets_that_both_looks_miss_are_a_gap(starts: tuple[int, int], gaps: list[str]) -> None:
    """Retention moves the log start offset, and with it the start of the gap. The first segment is being deleted."""
    facts = clean()
    facts.metadata.apply(update(SEGMENTS[0], DELETING, NOW_MS))
    found = twice(*(replace(facts, logs={T: LogFacts(start, 35, [(0, 0)])}) for start in starts))
    assert [(each.kind, each.said.partition(" are")[0]) for each in found] == [
        (Kind.GAP, f"offsets {each}") for each in gaps
    ]


def test_what_one_look_could_not_check_is_said() -> None:
    """A leader did not respond in the first look, so the second look's findings are neither confirmed nor dismissed."""
    away = replace(clean(), logs={T: "no leader"})
    examined = examine(replace(clean(), logs={T: LogFacts(0, 35, [(0, 0)])}), examine(away))
    assert (examined.findings, examined.not_checked) == ([], ["gaps of t-0: no leader"])


def test_segment_that_was_begun_while_objects_were_listed_is_no_orphan() -> None:
    facts = clean()
    begun = segment(4, 30, 39)
    objects = {**facts.objects, key(begun): 10}
    assert only(replace(facts, objects=objects)).kind is Kind.ORPHAN
    assert examine(replace(facts, objects=objects, begun_since=[begun])).findings == []


def test_metadata_that_are_not_understood_may_explain_anything_of_their_partitions() -> None:
    """The records may be those of a segment, of a finished copy, or of a deletion. A missing object is found
    nevertheless.
    """
    copying = segment(4, 30, 39)
    facts = clean(copying)
    orphans = {key(segment(9, 40, 49)): 10, "kafka-tiered-storage/notes.txt": 5}
    objects = {name: size for name, size in {**facts.objects, **orphans}.items() if name != key(SEGMENTS[1])}
    facts = replace(facts, objects=objects, logs={T: LogFacts(0, 35, [(0, 0)])}, metadata_partition_count=50)
    number = metadata_partition(T.topic_id, T.partition, 50)
    kinds = [Kind.MISSING, Kind.GAP, Kind.UNFINISHED_COPY]
    assert [each.kind for each in examine(facts).findings] == [*kinds, Kind.ORPHAN, Kind.ORPHAN]
    examined = examine(replace(facts, unreadable={number: 2}))
    assert [each.kind for each in examined.findings] == [Kind.MISSING]
    assert examined.not_checked == [
        f"orphans, gaps and unfinished changes of partitions whose metadata are in __remote_log_metadata-{number}: "
        "2 records are not understood",
        "1 objects that Kafka's LocalTieredStorage would not write: metadata that are not understood may explain them",
    ]
    elsewhere = examine(replace(facts, unreadable={(number + 1) % 50: 2}))
    assert [each.kind for each in elsewhere.findings] == [*kinds, Kind.ORPHAN]


def test_configuration_that_is_not_known_is_not_checked() -> None:
    """The check reports neither a trap nor a deleted topic."""
    examined = examine(replace(clean(), topics={T.topic_id: TopicFacts("t", "refused")}))
    assert (examined.findings, examined.not_checked) == ([], ["whether t is tiered: refused"])
