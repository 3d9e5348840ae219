"""The targets of the simulated extraction: files in memory, or a table, both with the real ``RangeFolders``.

A process may die before any operation on a file. Tests: tests/sim/extraction/test_extraction.py.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction import inventory as inventories
from kafka_zk.spark_jobs.extraction.dead_letters import DeadLetter
from kafka_zk.spark_jobs.extraction.manifest import STAGING_FOLDER, Manifest
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.read_tasks import ReadTasks
from kafka_zk.spark_jobs.extraction.table_formats import is_table
from kafka_zk.spark_jobs.extraction.undecodable import Staged

Record = tuple[TopicPartition, int]


class Store:
    """The state that all processes share: files by name, and for each plan its records in a table; None: it is fenced.

    All tables share the keys of plans: a group has one writer, and each of its plans has another number.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.table: dict[tuple[str, int], list[Record] | None] = {}

    def shown(self, targets: Sequence[str]) -> list[Record]:
        """The records that readers of these targets see, sorted."""
        records = [record for those in self.table.values() for record in those or ()]
        for name, data in self.files.items():
            for target in targets:
                path = name.removeprefix(f"{target}/")
                if path != name and not path.startswith(STAGING_FOLDER) and inventories.is_data(path):
                    records += records_in(data)
        return sorted(records)


class StoreFiles:
    """A process's ``range_folders.Files``. ``operate`` is called before each change; it may raise.

    Renaming a file is a copy and a deletion, as in an object store; renaming a folder is one change, as on HDFS.
    """

    def __init__(self, store: Store, operate: Callable[[], None]) -> None:
        self._files = store.files
        self._operate = operate

    def exists(self, uri: str) -> bool:
        return uri in self._files or bool(self._below(uri))

    def size(self, uri: str) -> int | None:
        return len(self._files[uri]) if uri in self._files else None

    def rename(self, source: str, target: str) -> bool:
        self._operate()
        self._files[target] = self._files[source]
        self._operate()
        del self._files[source]
        return True

    def rename_folder(self, source: str, target: str) -> bool:
        if self.exists(target) or not self.exists(source):
            return False
        self._operate()
        for name in self._below(source):
            self._files[target + name.removeprefix(source)] = self._files.pop(name)
        return True

    def make_folder(self, uri: str) -> None:
        """Do nothing: the name of a file contains its folder."""

    def delete(self, uri: str) -> None:
        for name in [uri, *self._below(uri)]:
            if name in self._files:
                self._operate()
                del self._files[name]

    def folders(self, uri: str) -> list[str]:
        return sorted({name.removeprefix(f"{uri}/").split("/")[0] for name in self._below(uri)})

    def walk(self, uri: str) -> Iterator[tuple[str, int]]:
        for name in self._below(uri):
            yield name.removeprefix(f"{uri}/"), len(self._files[name])

    def read(self, uri: str) -> bytes | None:
        return self._files.get(uri)

    def write(self, uri: str, document: Any) -> None:
        self._operate()
        self._files[uri] = json.dumps(document, sort_keys=True).encode()

    def _below(self, uri: str) -> list[str]:
        return [name for name in self._files if name.startswith(f"{uri}/")]


class MemoryLake:
    """``extraction.job.Lake`` of one process. Each task writes a file."""

    cores = 1

    def __init__(self, store: Store, target: str, group: str, operate: Callable[[], None]) -> None:
        self._store = store
        self._target = target
        self._group = group
        self._operate = operate
        self._files = StoreFiles(store, operate)
        self._folders = RangeFolders(self._files, self._count)

    def _count(self, paths: Sequence[str]) -> int:
        return sum(len(records_in(self._store.files[path])) for path in paths)

    def qualified(self, folder: str) -> str:
        return self._target

    def stage(self, manifest: Manifest, tasks: ReadTasks, bootstrap_servers: str) -> Staged:
        staging = self._folders.staging(manifest)
        for number, ranges in enumerate(tasks.ranges):
            records = [[*each.tp, offset] for each in ranges for offset in range(each.from_offset, each.until_offset)]
            self._files.write(f"{staging}/part-{number}", records)
        count = sum(tasks.sizes)
        self._folders.complete(manifest, self._group, count)
        return Staged(count, count)

    def undecodable(self, tasks: ReadTasks, bootstrap_servers: str) -> Iterator[DeadLetter]:
        return iter(())

    def published(self, manifest: Manifest) -> str:
        return self._folders.published(manifest)

    def is_published(self, manifest: Manifest) -> bool:
        return not is_table(manifest.format) and self._folders.is_published(manifest)

    def check_disjoint(self, manifest: Manifest) -> None:
        self._folders.check_disjoint(manifest)

    def publish(self, manifest: Manifest) -> None:
        if not is_table(manifest.format):
            self._folders.publish(manifest)
            return
        self._operate()
        staged = self._folders.staging(manifest)
        files = [path for path, _ in self._files.walk(staged) if inventories.is_data(path)]
        records = [record for path in files for record in records_in(self._store.files[f"{staged}/{path}"])]
        self._store.table.setdefault((manifest.writer, manifest.sequence), records)
        if self.is_fenced(manifest):
            raise ExtractionFailed(f"{manifest.target} has no commit of {manifest.name}")
        self._operate()

    def discard(self, manifest: Manifest) -> None:
        self._folders.discard(manifest)

    def in_table(self, manifest: Manifest) -> bool:
        return self._store.table.get((manifest.writer, manifest.sequence)) is not None

    def is_fenced(self, manifest: Manifest) -> bool:
        return self._store.table.get((manifest.writer, manifest.sequence), ()) is None

    def fence(self, manifest: Manifest) -> bool:
        if is_table(manifest.format):
            self._operate()
            self._store.table.setdefault((manifest.writer, manifest.sequence), None)
        return self.in_table(manifest)


@lru_cache(maxsize=10_000)
def records_in(data: bytes) -> tuple[Record, ...]:
    """The records in a file of a task."""
    return tuple((TopicPartition(topic, partition), offset) for topic, partition, offset in json.loads(data))


def faults(shown: Sequence[Record], offsets: Mapping[TopicPartition, int], *, leads: bool) -> list[str]:
    """Judge the current state: no record is visible twice, or beyond the group's offsets.

    Args: ``leads``: the target is a table, which may be ahead of the offsets.
    """
    told = []
    by_tp: dict[TopicPartition, list[int]] = {}
    for tp, offset in shown:
        by_tp.setdefault(tp, []).append(offset)
    for tp, found in sorted(by_tp.items()):
        twice = sorted({offset for offset, following in pairwise(found) if offset == following})
        if twice:
            told.append(f"{tp}: {len(twice)} records are there twice, from offset {twice[0]} on")
        early = [offset for offset in found if offset >= offsets.get(tp, 0)]
        if early and not leads:
            told.append(f"{tp}: offset {early[0]} is there, and the group is at {offsets.get(tp, 0)}")
    return told


def gaps(shown: Sequence[Record], ends: Mapping[TopicPartition, int]) -> list[str]:
    """Judge the final state: every record is visible."""
    there = set(shown)
    told = []
    for tp, end in ends.items():
        lost = [offset for offset in range(end) if (tp, offset) not in there]
        if lost:
            told.append(f"{tp}: {len(lost)} of {end} records are lost, first {lost[0]}")
    return told
