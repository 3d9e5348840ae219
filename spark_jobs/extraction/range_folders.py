"""The folders of a plain target: publishes a staged range as ``range=...``, and finds existing ranges.

Any run may repeat PUBLISH at any point. PUBLISH follows the inventory that was written when the staging was complete.
Each step of PUBLISH creates one file, and no step changes an existing file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction import inventory as inventories
from kafka_zk.spark_jobs.extraction.inventory import Inventory
from kafka_zk.spark_jobs.extraction.manifest import STAGING_FOLDER, Manifest
from kafka_zk.spark_jobs.extraction.stores import Publication, publication

RANGE_PREFIX = "range="


class Files(Protocol):
    """Implemented by ``hadoop_files.HadoopFiles``."""

    def exists(self, uri: str) -> bool: ...

    def size(self, uri: str) -> int | None: ...

    def rename(self, source: str, target: str) -> bool: ...

    def rename_folder(self, source: str, target: str) -> bool: ...

    def make_folder(self, uri: str) -> None: ...

    def delete(self, uri: str) -> None: ...

    def folders(self, uri: str) -> list[str]: ...

    def walk(self, uri: str) -> Iterator[tuple[str, int]]: ...

    def read(self, uri: str) -> bytes | None: ...

    def write(self, uri: str, document: Mapping[str, Any]) -> None: ...


_ATTEMPTS = ".attempts"


def attempts_folder(staging: str) -> str:
    """The folder for tasks that write files themselves. It is beside the staging folder, not inside it, so that an
    abandoned task never writes into a published folder.
    """
    return f"{staging}{_ATTEMPTS}"


class RangeFolders:
    """``count_rows``: counts the rows of Parquet files."""

    def __init__(self, files: Files, count_rows: Callable[[Sequence[str]], int]) -> None:
        self.files = files
        self._count_rows = count_rows

    def staging(self, manifest: Manifest) -> str:
        return f"{manifest.target}/{manifest.staging}"

    def published(self, manifest: Manifest) -> str:
        return f"{manifest.target}/{manifest.name}"

    def is_published(self, manifest: Manifest) -> bool:
        folder = self.published(manifest)
        if publication(manifest.target) is Publication.RENAME:
            return self.files.exists(folder)
        return self.files.exists(f"{folder}/{inventories.FILE_NAME}")

    def complete(
        self, manifest: Manifest, group: str, records: int, replaces: tuple[str, ...] = (), schema_version: int = 0
    ) -> None:  # fmt: skip
        """Describe the staged files. Raises ExtractionFailed if a check does not find ``records`` records in them."""
        staging = self.staging(manifest)
        files = {path: size for path, size in self.files.walk(staging) if inventories.is_data(path)}
        copied = publication(manifest.target) is Publication.COPY
        if replaces or (copied and manifest.format == "parquet"):
            self._check_records(staging, files, records)
        found = Inventory(group, manifest.ranges, records, manifest.format, files, replaces, schema_version)
        self.files.write(self._inventory(manifest), found.as_document())

    def staged(self, manifest: Manifest) -> list[str]:
        """The paths of the files that ``complete`` has found. Raises ExtractionFailed if some are missing."""
        where = self._inventory(manifest)
        data = self.files.read(where)
        found = dict(self.files.walk(self.staging(manifest)))
        if data is None or not (files := inventories.decode(where, data).files).items() <= found.items():
            raise ExtractionFailed(
                f"another run has removed staged files of {manifest.name}; nothing was published: run it again"
            )
        return sorted(files)

    def _check_records(self, staging: str, files: Mapping[str, int], records: int) -> None:
        """Count the records in the files' footers, because a stale listing may omit files."""
        paths = [f"{staging}/{path}" for path in files]
        found = self._count_rows(paths) if paths else 0
        if found != records:
            raise ExtractionFailed(
                f"{records:,} records were written, but the files that {staging} lists hold {found:,}; "
                "run it again, it continues where it stopped"
            )

    def publish(self, manifest: Manifest) -> None:
        """Publish the staged folder, unless it is published. Raises ExtractionFailed."""
        if publication(manifest.target) is Publication.RENAME:
            self._rename(manifest)
        else:
            self._copy(manifest)

    def discard(self, manifest: Manifest) -> None:
        staging = self.staging(manifest)
        for uri in (staging, attempts_folder(staging), self._description(manifest)):
            self.files.delete(uri)

    def attempts(self, target: str, prefix: str) -> list[Manifest]:
        """The manifests of the staging folders whose names begin with ``prefix``, including leftovers."""
        names = {name.removesuffix(_ATTEMPTS) for name in self.files.folders(f"{target}/{STAGING_FOLDER}")}
        found = [
            Manifest.of_staging(target, name.rpartition("-")[0], f"{STAGING_FOLDER}/{name}", "parquet")
            for name in sorted(names)
        ]
        return [each for each in found if each.attempt.startswith(prefix)]

    def _description(self, manifest: Manifest) -> str:
        return f"{self.staging(manifest)}.json"

    def _inventory(self, manifest: Manifest) -> str:
        """The URI of the staged files' inventory."""
        if publication(manifest.target) is Publication.COPY:
            return self._description(manifest)
        return f"{self.staging(manifest)}/{inventories.FILE_NAME}"

    def _rename(self, manifest: Manifest) -> None:
        """Rename the folder, unless another group has published the range."""
        source, target = self.staging(manifest), self.published(manifest)
        if not self.is_published(manifest):
            if not self.files.exists(source):
                raise ExtractionFailed(
                    f"the offsets of {manifest.name} have moved, but its folder {source} does not exist"
                )
            if self.files.rename_folder(source, target):
                return
            if not self.is_published(manifest):
                raise ExtractionFailed(f"{source} could not be renamed to {target}")
        self.files.delete(source)

    def _copy(self, manifest: Manifest) -> None:
        """Move files one by one, because a rename of the folder would move it into the existing folder."""
        if self.is_published(manifest):
            self.discard(manifest)
            return
        where = self._description(manifest)
        if (data := self.files.read(where)) is None:
            raise ExtractionFailed(f"the offsets of {manifest.name} have moved, but {where} does not exist")
        staged = inventories.decode(where, data)
        source, target = self.staging(manifest), self.published(manifest)
        for path, size in staged.files.items():
            self._copy_file(f"{source}/{path}", f"{target}/{path}", size)
        self.files.write(f"{target}/{inventories.FILE_NAME}", staged.as_document())
        self.discard(manifest)

    def _copy_file(self, source: str, target: str, size: int) -> None:
        found = self.files.size(target)
        if found == size:
            return
        if found is not None:
            self.files.delete(target)  # its size differs, so it is not the staged file
        if not self.files.exists(source):
            raise ExtractionFailed(f"the staged file {source} is missing, and {target} does not exist either")
        self.files.make_folder(target.rpartition("/")[0])
        if not self.files.rename(source, target):
            raise ExtractionFailed(f"{source} could not be renamed to {target}")

    def check_disjoint(self, manifest: Manifest) -> None:
        """Raises ExtractionFailed if a folder of the target has some of the ranges, or has no description."""
        found = self.found(manifest.target)
        if undescribed := [name for name, each in found.items() if each is None]:
            raise ExtractionFailed(
                f"{manifest.target}/{undescribed[0]} has no {inventories.FILE_NAME}, so it may have records of the "
                "backfill: give another --to"
            )
        described = {name: each for name, each in found.items() if each is not None}
        if (overlap := inventories.first_overlap(described, manifest.ranges)) is not None:
            piece, name = overlap
            raise ExtractionFailed(
                f"{manifest.target}/{name} already has {piece}, which the backfill would add again: give another "
                "--to, or move the folder away"
            )

    def found(self, target: str) -> dict[str, Inventory | None]:
        """The range folders by name; None for folders without an inventory."""
        names = [name for name in self.files.folders(target) if name.startswith(RANGE_PREFIX)]
        return {name: self.described(target, name) for name in names}

    def described(self, target: str, name: str) -> Inventory | None:
        """The inventory of a range folder; None if it has none. Raises ExtractionFailed."""
        where = f"{target}/{name}/{inventories.FILE_NAME}"
        data = self.files.read(where)
        return None if data is None else inventories.decode(where, data)
