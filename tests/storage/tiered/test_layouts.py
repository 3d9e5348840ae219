"""The object names that both plugins use."""

from dataclasses import replace

import pytest

from kafka_zk.storage.tiered.aiven_layout import AivenLayout, custom_fields
from kafka_zk.storage.tiered.layout import KeyOwner, Layout
from kafka_zk.storage.tiered.local_tiered_storage import LocalTieredStorageLayout
from kafka_zk.storage.tiered.segment_manifest import ManifestSizes
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from kafka_zk.storage.tiered.uuid_text import id_of
from tests.storage.tiered.segments import segment

TOPIC_ID = id_of("MWJ6FHTfRYy67jzwZdeqSQ")
SEGMENT_ID = id_of("tqimKeZwStOEOwRzT3L5oQ")


def of(topic: str = "topic", start: int = 1234, custom: bytes | None = None) -> RemoteLogSegmentMetadata:
    made = segment(1, start, start + 9, tp=TopicIdPartition(TOPIC_ID, topic, 7))
    return replace(made, segment_id=RemoteLogSegmentId(made.segment_id.tp, SEGMENT_ID), custom_metadata=custom)


def test_keys_of_aivens_plugin() -> None:
    """The key is the example of the plugin's ObjectKeyFactory."""
    stem = "someprefix/topic-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ"
    layout = AivenLayout("someprefix/")
    ends = [each.key.removeprefix(stem) for each in layout.objects(of(), None)]
    assert ends == [".log", ".indexes", ".rsm-manifest"]
    assert layout.manifest_key(of()) == f"{stem}.rsm-manifest"
    sizes = [each.size_bytes for each in layout.objects(of(), ManifestSizes("", 100, 60, 5))]
    assert sizes == [60, 5, None]


def test_custom_metadata_of_aivens_plugin_name_the_objects() -> None:
    """SegmentCustomMetadataSerde.java: the size, then the prefix and the key, as tagged fields."""
    fields = b"\x03\x00\x01\x54\x01\x05\x05old/\x02\x04\x04key"
    assert custom_fields(fields) == {1: "old/", 2: "key"}
    assert AivenLayout("new/").objects(of(custom=fields), None)[0].key == "old/key.log"


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x01", b"\x05\x01\x7f", b"\x80" * 20, b"\x01\x01\x02\x02\xff"])
def test_custom_metadata_of_other_plugins_are_ignored(data: bytes) -> None:
    assert custom_fields(data) == {}


def test_keys_of_local_tiered_storage() -> None:
    """Brokers of 3.9.1 wrote these keys. Only the log's size is also in the metadata."""
    stem = "kafka-tiered-storage/topic-7-MWJ6FHTfRYy67jzwZdeqSQ/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ"
    objects = LocalTieredStorageLayout().objects(of(), None)
    assert objects[0] == (f"{stem}.log", 100, True)
    assert objects[-1] == (f"{stem}.txnindex", None, False)
    assert [each.key.removeprefix(stem) for each in objects[1:-1]] == [
        ".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint",
    ]  # fmt: skip


@pytest.mark.parametrize("layout", [AivenLayout(""), AivenLayout("a/b-"), LocalTieredStorageLayout()])
@pytest.mark.parametrize("topic", ["t", "t-1", "a.b_c-22-33"])
def test_owner_of_a_key_is_its_segment(layout: Layout, topic: str) -> None:
    """The owner is found even for topics whose names look like parts of keys."""
    owner = KeyOwner(topic, TOPIC_ID, 7, SEGMENT_ID, 1234)
    assert {layout.owner(each.key) for each in layout.objects(of(topic), None)} == {owner}


@pytest.mark.parametrize("layout", [AivenLayout(""), AivenLayout("a/b-"), LocalTieredStorageLayout()])
def test_objects_of_a_topic_have_its_prefix(layout: Layout) -> None:
    """Another topic id, or a topic whose name begins with this one's, may have another prefix."""
    prefix = layout.topic_prefix("t", TOPIC_ID)
    assert all(each.key.startswith(prefix) for each in layout.objects(of("t"), None))
    assert prefix.startswith(layout.prefix)
    assert not any(each.key.startswith(prefix) for each in layout.objects(of("tt"), None))


def test_prefix_of_a_topic_of_aivens_plugin_is_one_folder() -> None:
    assert AivenLayout("p/").topic_prefix("t", TOPIC_ID) == "p/t-MWJ6FHTfRYy67jzwZdeqSQ/"


@pytest.mark.parametrize("key", ["", "x", "kafka-tiered-storage/x.log", "t/7/0.log", "../t-0-x/0.log"])
def test_foreign_keys_have_no_owner(key: str) -> None:
    assert AivenLayout("").owner(key) is None
    assert LocalTieredStorageLayout().owner(key) is None
