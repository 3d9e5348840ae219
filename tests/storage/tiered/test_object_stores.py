"""What a folder and a bucket list and return."""

from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from kafka_zk.storage.tiered.bucket_store import BucketStore
from kafka_zk.storage.tiered.object_store import (
    FolderStore,
    NoSuchObject,
    ObjectStore,
    ObjectStoreError,
    ObjectTooLarge,
)
from kafka_zk.storage.tiered.storage_address import open_storage

OBJECTS = {"a/b/1.log": b"12345", "a/bc/2.log": b"", "ab/3.log": b"1", "z": b"12"}


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
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
    """Also if it ends in the middle of a name."""
    expected = {key: len(data) for key, data in OBJECTS.items() if key.startswith(prefix)}
    assert dict(store.list(prefix)) == expected


class Counting:
    """The library, which notes the folders of which everything is listed."""

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
    """The others may have millions of objects."""
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


def test_bucket_that_cannot_be_reached_is_one_sentence_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens; the error has neither the key nor its secret."""
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


@pytest.mark.parametrize("address", ["s3:/bucket", "ftp://bucket/x", "s3://key:secret@bucket/x", "/no/such/folder"])
def test_addresses_that_are_refused(address: str) -> None:
    """Without what may be a secret in them."""
    with pytest.raises(ObjectStoreError) as raised:
        open_storage(address)
    assert "secret" not in str(raised.value)


def test_folder_of_local_tiered_storage_is_recognized(tmp_path: Path) -> None:
    assert "Aiven" in open_storage(str(tmp_path)).layout.name
    (tmp_path / "kafka-tiered-storage").mkdir()
    assert "LocalTieredStorage" in open_storage(f"file://{tmp_path}").layout.name
