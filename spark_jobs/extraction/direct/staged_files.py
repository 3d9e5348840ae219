"""Files that executors have staged for a table, in a local folder."""

import os
from collections.abc import Iterable
from typing import NamedTuple

from kafka_zk.spark_jobs.extraction.parquet.job import EMPTY_FILE


class StagedFile(NamedTuple):
    """``path``: local; ``folder``: of ``--partition-by``, relative to the staging folder, "" without one."""

    path: str
    folder: str

    @property
    def name(self) -> str:
        """Unique among all attempts."""
        return os.path.basename(self.path)


def staged_files(staging: str, paths: Iterable[str]) -> list[StagedFile]:
    """Those with records. ``paths``: relative to the local folder ``staging``."""
    found = sorted(path for path in paths if path != EMPTY_FILE)
    return [StagedFile(os.path.join(staging, path), os.path.dirname(path)) for path in found]
