"""A broker whose remote storage has the layout of Aiven's plugin."""

from dataclasses import replace
from pathlib import Path

import obstore
import pytest
from obstore.store import MemoryStore

from kafka_zk.broker.tiered.remote_log_manager import COPY_TIMEOUT_S
from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.aiven_segment_storage import AivenSegmentStorage, ChunkSettings
from kafka_zk.storage.tiered.bucket_store import BucketStore
from kafka_zk.storage.tiered.object_store import FolderStore, WritableStore
from tests.kafka_zk.broker.tiered.test_remote_log_manager import states
from tests.kafka_zk.broker.tiered.test_remote_reads import ask, offsets, pending
from tests.kafka_zk.broker.tiered.tiered_broker import TieredBroker
from tests.storage.tiered.segments import FINISHED, STARTED

SUFFIXES = ("indexes", "log", "rsm-manifest")


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> WritableStore:
    return FolderStore(str(tmp_path / "tier")) if request.param == "folder" else BucketStore(obstore, MemoryStore())


def broker_on(folder: Path, store: WritableStore, is_compressed: bool = False) -> TieredBroker:
    settings = ChunkSettings(100, is_compressed)
    return TieredBroker(folder, storage=AivenSegmentStorage(store, AivenLayout("p/"), settings, 0))


def keys(store: WritableStore) -> list[tuple[int, str]]:
    """(Start offset, suffix) of all objects."""
    names = [each.key.rpartition("/")[2] for each in store.list("p/")]
    return sorted((int(name[:20]), name.rpartition(".")[2]) for name in names)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_records_are_copied_read_and_deleted(tmp_path: Path, store: WritableStore, is_compressed: bool) -> None:
    broker = broker_on(tmp_path, store, is_compressed)
    broker.fill(7)
    broker.run()
    assert keys(store) == [(start, suffix) for start in (0, 2, 4) for suffix in SUFFIXES]
    assert states(broker) == [(0, FINISHED), (2, FINISHED), (4, FINISHED)]
    assert (broker.log.log_start_offset, broker.log.local_log_start_offset) == (0, 6)
    assert [offsets(ask(broker, offset)) for offset in (0, 3, 4, 6)] == [[0, 1], [3], [4, 5], [6]]
    broker.log.update_config(replace(broker.log.config, retention_bytes=1))
    broker.run()
    assert keys(store) == [(6, suffix) for suffix in SUFFIXES]


def test_records_of_a_segment_without_manifest_come_later(tmp_path: Path, store: WritableStore) -> None:
    """The bucket may answer again; nothing is deleted because of it."""
    broker = broker_on(tmp_path, store)
    broker.fill(7)
    broker.run()
    (key,) = [each.key for each in store.list("p/") if f"{2:020d}" in each.key and each.key.endswith("manifest")]
    manifest = store.get(key, 10_000)
    store.delete(key)
    answer = pending(broker, 2)
    broker.harness.clock.advance(0.5)
    assert [(each.error_code, each.records) for each in answer] == [(0, b"")]
    before = keys(store)
    broker.run()
    assert set(keys(store)) > set(before)
    store.put(key, iter((manifest,)))
    assert offsets(ask(broker, 2)) == [2, 3]


def test_a_store_that_hangs_stops_no_other_work(tmp_path: Path, store: WritableStore) -> None:
    """What the late thread still writes is an unfinished copy, and the next attempt has its own objects."""
    broker = broker_on(tmp_path, store)
    broker.fill(7)
    broker.threads.holds = True
    broker.run()
    broker.clock.advance(COPY_TIMEOUT_S)
    broker.threads.holds = False
    broker.threads.release()
    assert (keys(store), states(broker)) == ([(0, suffix) for suffix in SUFFIXES], [(0, STARTED)])
    broker.run()
    assert states(broker) == [(0, STARTED), (0, FINISHED), (2, FINISHED), (4, FINISHED)]
    assert offsets(ask(broker, 0)) == [0, 1]
