"""What a folder and a bucket list and return."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from kafka_zk.storage.tiered import bucket_store
from kafka_zk.storage.tiered.bucket_store import BucketStore, S3Bucket
from kafka_zk.storage.tiered.object_store import (
    FolderStore,
    NoSuchObject,
    ObjectStore,
    ObjectStoreError,
    ObjectTooLarge,
    WritableStore,
)
from kafka_zk.storage.tiered.storage_address import open_storage

OBJECTS = {"a/b/1.log": b"12345", "a/bc/2.log": b"", "ab/3.log": b"1", "z": b"12"}


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> WritableStore:
    if request.param == "bucket":
        memory = MemoryStore()
        for key, data in OBJECTS.items():
            obstore.put(memory, key, data)
        return BucketStore(obstore, memory)
    for key, data in OBJECTS.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(data)
    return FolderStore(str(tmp_path))


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/b/", "a/b/1.log", "x", "x/y", "z", "z/1"])
def test_list_has_all_keys_that_begin_with_the_prefix(store: ObjectStore, prefix: str) -> None:
    """The prefix may end in the middle of a name."""
    expected = {key: len(data) for key, data in OBJECTS.items() if key.startswith(prefix)}
    assert {each.key: each.size_bytes for each in store.list(prefix)} == expected


def test_list_says_when_objects_were_written(store: ObjectStore) -> None:
    now_ms = time.time() * 1000
    for each in store.list(""):
        assert now_ms - 60_000 < each.modified_ms < now_ms + 60_000


class Counting:
    """The obstore library, recording which folders are listed completely."""

    exceptions = obstore.exceptions
    list_with_delimiter = staticmethod(obstore.list_with_delimiter)

    def __init__(self) -> None:
        self.listed: list[str | None] = []

    def list(self, store: Any, prefix: str | None, **options: Any) -> Any:
        self.listed.append(prefix)
        return obstore.list(store, prefix, **options)


@pytest.mark.parametrize(
    ("prefix", "listed"),
    [("", [None]), ("p/", ["p"]), ("p/orders-", ["p/orders-1"]), ("p/orders-1/", ["p/orders-1"]), ("o", ["orders-3"])],
)
def test_bucket_lists_only_folders_with_the_prefix(prefix: str, listed: list[str | None]) -> None:
    """Other folders may have millions of objects."""
    memory = MemoryStore()
    for key in ("p/orders-1/0.log", "p/others-2/0.log", "orders-3/0.log"):
        obstore.put(memory, key, b"1")
    library = Counting()
    assert len(list(BucketStore(library, memory).list(prefix))) == (3 if not prefix else 2 if prefix == "p/" else 1)
    assert library.listed == listed


def test_get_returns_whole_objects_of_bounded_size(store: ObjectStore) -> None:
    assert store.get("a/b/1.log", 5) == b"12345"
    with pytest.raises(ObjectTooLarge, match="more than 4 bytes"):
        store.get("a/b/1.log", 4)
    with pytest.raises(NoSuchObject):
        store.get("a/b/2.log", 5)


def test_ranges_end_with_the_object(store: WritableStore) -> None:
    assert store.get_range("a/b/1.log", 1, 3) == b"234"
    assert store.get_range("a/b/1.log", 3, 100) == b"45"
    with pytest.raises(NoSuchObject):
        store.get_range("a/b/2.log", 0, 1)


def test_a_stored_object_replaces_another_and_can_be_deleted_twice(store: WritableStore) -> None:
    for parts in ([b"1", b"", b"23"], [b"4"], []):
        store.put("new/folder/x", iter(parts))
        assert store.get("new/folder/x", 3) == b"".join(parts)
    for _ in range(2):
        store.delete("new/folder/x")
    with pytest.raises(NoSuchObject):
        store.get("new/folder/x", 3)
    store.delete("no/such/folder/x")


@pytest.mark.parametrize("size_bytes", [99, 100, 101, 250])
def test_large_objects_are_uploaded_in_parts(size_bytes: int) -> None:
    memory = MemoryStore()
    content = bytes(range(size_bytes))
    store = BucketStore(obstore, memory, part_bytes=100)
    store.put("x", (content[at : at + 30] for at in range(0, size_bytes, 30)))
    assert store.get("x", size_bytes) == content


@pytest.mark.parametrize("size_bytes", [10, 1000])
def test_an_object_whose_parts_fail_is_not_stored(size_bytes: int) -> None:
    def parts() -> Iterator[bytes]:
        yield bytes(size_bytes)
        raise OSError("the disk failed")

    memory = MemoryStore()
    with pytest.raises((OSError, ObjectStoreError), match="the disk failed"):
        BucketStore(obstore, memory, part_bytes=100).put("x", parts())
    assert not list(obstore.list(memory))


def test_an_upload_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker that uploads gave up earlier, and another broker may have deleted the segment since."""
    seconds = iter(range(0, 10_000, 700))
    monkeypatch.setattr(bucket_store, "monotonic_s", lambda: next(seconds))
    memory = MemoryStore()
    with pytest.raises(ObjectStoreError, match="x: the upload takes more than 1800 s"):
        BucketStore(obstore, memory, part_bytes=100).put("x", (bytes(60) for _ in range(5)))
    assert not list(obstore.list(memory))


@pytest.mark.parametrize("key", ["../x", "a/../../x"])
def test_a_key_outside_the_folder_is_refused(tmp_path: Path, key: str) -> None:
    store = FolderStore(str(tmp_path / "tier"))
    (tmp_path / "x").write_bytes(b"1")
    calls: list[Callable[[], object]] = [
        lambda: store.put(key, iter(())), lambda: store.delete(key), lambda: store.get_range(key, 0, 1),
        lambda: store.get(key, 1),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ObjectStoreError, match="not a path below"):
            call()


def test_bucket_that_cannot_be_reached_is_one_sentence_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens at the address; the error contains neither the key nor its secret."""
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "AKIAKEY", "AWS_SECRET_ACCESS_KEY": "sesame",
        "AWS_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("kafka_zk.storage.tiered.bucket_store._RETRY_COUNT", 0)
    store, layout = open_storage("s3://bucket/key.prefix/")
    assert layout.prefix == "key.prefix/"
    with pytest.raises(ObjectStoreError, match=r"listing key\.prefix/: .*error sending request") as raised:
        list(store.list(layout.prefix))
    for secret in ("AKIAKEY", "sesame", "?", "\n"):
        assert secret not in str(raised.value)


def test_a_bucket_without_the_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    opened: list[Callable[[], object]] = [
        lambda: BucketStore.open_s3(S3Bucket("tier", "eu-central-1")), lambda: BucketStore.open("s3://tier"),
    ]  # fmt: skip
    for call in opened:
        with pytest.raises(ObjectStoreError, match=r"tier needs kafka-zk\[tiered\]: pip install"):
            call()


@pytest.mark.parametrize("address", ["s3:/bucket", "ftp://bucket/x", "s3://key:secret@bucket/x", "/no/such/folder"])
def test_addresses_that_are_refused(address: str) -> None:
    """The error does not repeat an address, which may contain a secret."""
    with pytest.raises(ObjectStoreError) as raised:
        open_storage(address)
    assert "secret" not in str(raised.value)


def test_folder_of_local_tiered_storage_is_recognized(tmp_path: Path) -> None:
    assert "Aiven" in open_storage(str(tmp_path)).layout.name
    (tmp_path / "kafka-tiered-storage").mkdir()
    assert "LocalTieredStorage" in open_storage(f"file://{tmp_path}").layout.name
