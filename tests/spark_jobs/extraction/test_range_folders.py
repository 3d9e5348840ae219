"""Publication in a store without atomic folder renames, killed at every operation and repeated."""

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction import inventory as inventories
from kafka_zk.spark_jobs.extraction.manifest import Manifest, planned
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders, attempts_folder
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

TARGET = "s3a://bucket/lake"
FILES = {"a=1/part-0.parquet": b"one", "a=2/part-0.parquet": b"two!", "part-1.parquet": b"three"}


class Killed(BaseException):
    """The process ended here."""


class ObjectStore:
    """Objects by name: no folders, a rename is a copy and a deletion. Ends the process before operation ``dies_at``."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.dies_at: int | None = None
        self.hidden: set[str] = set()
        """The objects that a slow listing does not show yet."""

    def _operate(self) -> None:
        if self.dies_at is not None:
            if self.dies_at == 0:
                raise Killed
            self.dies_at -= 1

    def exists(self, uri: str) -> bool:
        return any(name == uri or name.startswith(f"{uri}/") for name in self.objects)

    def size(self, uri: str) -> int | None:
        return len(self.objects[uri]) if uri in self.objects else None

    def rename(self, source: str, target: str) -> bool:
        assert target not in self.objects
        self._operate()
        self.objects[target] = self.objects[source]
        self._operate()
        del self.objects[source]
        return True

    def rename_folder(self, source: str, target: str) -> bool:
        raise AssertionError("an object store has no folders")

    def make_folder(self, uri: str) -> None: ...

    def delete(self, uri: str) -> None:
        for name in [name for name in self.objects if name == uri or name.startswith(f"{uri}/")]:
            self._operate()
            del self.objects[name]

    def folders(self, uri: str) -> list[str]:
        return sorted({name.removeprefix(f"{uri}/").split("/")[0] for name, _ in self.walk(uri) if "/" in name})

    def walk(self, uri: str) -> Iterator[tuple[str, int]]:
        for name, data in self.objects.items():
            if name.startswith(f"{uri}/") and name not in self.hidden:
                yield name.removeprefix(f"{uri}/"), len(data)

    def read(self, uri: str) -> bytes | None:
        return self.objects.get(uri)

    def write(self, uri: str, document: Mapping[str, Any]) -> None:
        self._operate()
        self.objects[uri] = json.dumps(document).encode()


class Disk(ObjectStore):
    """A store that renames folders atomically."""

    def rename_folder(self, source: str, target: str) -> bool:
        if self.exists(target) or not self.exists(source):
            return False
        self._operate()
        for name in [name for name in self.objects if name.startswith(f"{source}/")]:
            self.objects[target + name.removeprefix(source)] = self.objects.pop(name)
        return True


class SleepsOnce:
    """A store in which something happens before the request whose number is ``when``."""

    def __init__(self, store: ObjectStore, when: int, happens: Callable[[], None]) -> None:
        self._store = store
        self._left = when
        self._happens = happens
        self.has_slept = False

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            self._left -= 1
            if self._left < 0 and not self.has_slept:
                self.has_slept = True
                self._happens()
            if name == "rename" and given[0] not in self._store.objects:
                return False
            return getattr(self._store, name)(*given)

        return call


def _rows(paths: Sequence[str]) -> int:
    return len(paths)


def _staged(store: ObjectStore, target: str = TARGET, attempt: str = "attempt") -> tuple[RangeFolders, Manifest]:
    manifest = planned([OffsetRange("t", 0, 0, 3)], target, "parquet", attempt, 0)
    folders = RangeFolders(store, _rows)
    for path, data in FILES.items():
        store.objects[f"{folders.staging(manifest)}/{path}"] = data
    store.objects[f"{folders.staging(manifest)}/_SUCCESS"] = b""
    return folders, manifest


def _published(store: ObjectStore, manifest: Manifest) -> dict[str, bytes]:
    prefix = f"{TARGET}/{manifest.name}/"
    return {name.removeprefix(prefix): data for name, data in store.objects.items() if name.startswith(prefix)}


@pytest.mark.parametrize("dies_at", range(20))
def test_killed_anywhere_it_is_finished_by_the_next(dies_at: int) -> None:
    store = ObjectStore()
    folders, manifest = _staged(store)
    folders.complete(manifest, "g", 3)
    store.dies_at = dies_at
    try:
        folders.publish(manifest)
    except Killed:
        found = _published(store, manifest)
        assert folders.is_published(manifest) == (inventories.FILE_NAME in found)
        assert not folders.is_published(manifest) or FILES.items() <= found.items(), "described before it was whole"
    store.dies_at = None
    folders.publish(manifest)
    found = _published(store, manifest)
    description = found.pop(inventories.FILE_NAME)
    assert found == FILES
    assert inventories.decode("w", description).files == {path: len(data) for path, data in FILES.items()}
    assert all(name.startswith(f"{TARGET}/range=") for name in store.objects), "nothing is left of the staging"


def test_ranges_that_a_folder_has_are_refused() -> None:
    folders, manifest = _staged(ObjectStore())
    folders.check_disjoint(manifest)
    folders.complete(manifest, "g", 3)
    folders.publish(manifest)
    with pytest.raises(ExtractionFailed, match=r"range=[^ ]* already has t-0 offsets 0 to \d+, which the backfill"):
        folders.check_disjoint(manifest)


def test_a_folder_that_does_not_say_what_it_has_may_have_the_ranges() -> None:
    store = ObjectStore()
    folders, manifest = _staged(store)
    store.objects[f"{TARGET}/range=old/part-0"] = b""
    with pytest.raises(ExtractionFailed, match=r"range=old has no _kafka_zk_range\.json, so it may have records"):
        folders.check_disjoint(manifest)


def test_there_are_operations_enough_to_be_killed_at() -> None:
    for count in itertools.count():
        store = ObjectStore()
        folders, manifest = _staged(store)
        folders.complete(manifest, "g", 3)
        store.dies_at = count
        try:
            folders.publish(manifest)
        except Killed:
            continue
        assert 8 < count <= 20
        return


def test_a_listing_that_is_behind_stops_the_run() -> None:
    store = ObjectStore()
    folders, manifest = _staged(store)
    store.hidden = {f"{folders.staging(manifest)}/part-1.parquet"}
    with pytest.raises(ExtractionFailed, match=r"3 records were written, but the files that .* lists hold 2"):
        folders.complete(manifest, "g", 3)


def test_a_committed_range_whose_files_are_gone_is_an_error() -> None:
    store = ObjectStore()
    folders, manifest = _staged(store)
    folders.complete(manifest, "g", 3)
    store.delete(folders.staging(manifest))
    with pytest.raises(ExtractionFailed, match=r"the staged file .* is missing"):
        folders.publish(manifest)
    folders.discard(manifest)
    with pytest.raises(ExtractionFailed, match=r"have moved, but .* does not exist"):
        folders.publish(manifest)


def test_attempts_of_tasks_are_discarded_with_the_staging_folder() -> None:
    store = Disk()
    folders, manifest = _staged(store, "file:/lake")
    store.objects[f"{attempts_folder(folders.staging(manifest))}/00000-a/part-0.parquet"] = b"half"
    folders.discard(manifest)
    assert not store.objects


@pytest.mark.parametrize("when", range(17))
def test_two_runs_that_publish_the_same_range_at_once_lose_nothing(when: int) -> None:
    """One run slept between COMMIT and PUBLISH, so the next one publishes its range."""
    store = ObjectStore()
    folders, manifest = _staged(store)
    folders.complete(manifest, "g", 3)
    awake = SleepsOnce(store, when, lambda: folders.publish(manifest))
    with contextlib.suppress(ExtractionFailed):
        RangeFolders(awake, _rows).publish(manifest)
    found = _published(store, manifest)
    assert awake.has_slept
    assert FILES.items() <= found.items() and folders.is_published(manifest)


@pytest.mark.parametrize("when", range(3))
def test_of_two_groups_that_publish_the_same_range_at_once_one_is_seen(when: int) -> None:
    """A rename to an existing folder would move the folder into it."""
    store = Disk()
    folders, one = _staged(store, "file:/lake", "one")
    other = _staged(store, "file:/lake", "other")[1]
    for manifest in (one, other):
        folders.complete(manifest, manifest.attempt, 3)
    awake = SleepsOnce(store, when, lambda: folders.publish(one))
    RangeFolders(awake, _rows).publish(other)
    assert awake.has_slept
    shown = {name.removeprefix(f"{folders.published(one)}/"): data for name, data in store.objects.items()}
    assert inventories.decode("w", shown.pop(inventories.FILE_NAME)).group == "one"
    assert shown.pop("_SUCCESS") == b"" and shown == FILES, "and nothing is left of the staging"


def test_folders_are_listed_with_what_they_hold() -> None:
    store = ObjectStore()
    folders, manifest = _staged(store)
    folders.complete(manifest, "g", 3)
    folders.publish(manifest)
    store.objects[f"{TARGET}/range=half/part-0"] = b""
    found = folders.found(TARGET)
    assert found["range=half"] is None
    assert (whole := found[manifest.name]) is not None and whole.records == 3


@pytest.mark.parametrize("target", [TARGET, "file:/lake"])
@pytest.mark.parametrize("lost", ["part-1.parquet", None], ids=["a file", "the folder"])
def test_what_another_run_has_removed_is_not_committed(target: str, lost: str | None) -> None:
    """Another run may mistake a live attempt for a killed one."""
    store = ObjectStore()
    folders, manifest = _staged(store, target)
    folders.complete(manifest, "g", 3)
    assert folders.staged(manifest) == sorted(FILES)
    if lost is None:
        folders.discard(manifest)
    else:
        del store.objects[f"{folders.staging(manifest)}/{lost}"]
    with pytest.raises(ExtractionFailed, match="another run has removed staged files of range=t@"):
        folders.staged(manifest)


def test_attempts_are_found_by_the_beginning_of_their_names_and_removed() -> None:
    store = Disk()
    folders, mine = _staged(store, attempt="abcd1")
    _, other = _staged(store, attempt="ef01")
    store.objects[f"{attempts_folder(folders.staging(mine))}/part"] = b"of a task"
    (found,) = folders.attempts(TARGET, "abcd")
    assert (found.attempt, found.staging) == ("abcd1", mine.staging)
    folders.discard(found)
    assert {each.attempt for each in folders.attempts(TARGET, "")} == {other.attempt}
    assert not [name for name in store.objects if "abcd1" in name]
