"""Files that executors have staged for a table, in a local folder."""

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.parquet.job import EMPTY_FILE


class StagedFile(NamedTuple):
    """``path``: local. ``folder``: the ``--partition-by`` folder, relative to the staging folder; "" if there is
    none."""

    path: str
    folder: str

    @property
    def name(self) -> str:
        """Unique among all attempts."""
        return os.path.basename(self.path)


def staged_files(staging: str, paths: Iterable[str]) -> list[StagedFile]:
    """The staged files that have records. ``paths``: relative to the local folder ``staging``."""
    found = sorted(path for path in paths if path != EMPTY_FILE)
    return [StagedFile(os.path.join(staging, path), os.path.dirname(path)) for path in found]


REFUSALS = (Py4JJavaError, PySparkException, OSError)
"""Errors after which no commit is under way: Java has responded, or received no request."""


def delete(places: Iterable[str]) -> None:
    """Delete the files of a failed commit; missing files had not been moved yet."""
    for place in places:
        with suppress(FileNotFoundError):
            os.remove(place)


def changed_meanwhile(target: str, because: str) -> ExtractionFailed:
    """``because``: why the table, as it is now, needs Spark's writer."""
    return ExtractionFailed(
        f"{target} was changed while its files were written, and now needs Spark's writer because of {because}; "
        "run it again"
    )
