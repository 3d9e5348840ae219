"""Addresses in a table's metadata, and the file-system paths that they mean."""

import pytest

from kafka_zk.spark_jobs.audit.stored_files import StoredFiles
from kafka_zk.spark_jobs.errors import AuditFailed


@pytest.mark.parametrize(
    ("table", "address", "path"),
    [
        ("/lake/t", "file:/lake/t/day=a%3Ab c/x", "/lake/t/day=a%3Ab c/x"),
        ("/lake/t", "file:///lake/t/x", "/lake/t/x"),
        ("/lake/t", "day=a%3Ab/x?", "/lake/t/day=a%3Ab/x?"),
        ("gs://bucket/t", "gs://bucket/t/day=a%3Ab c/x#1", "bucket/t/day=a%3Ab c/x#1"),
        ("gs://bucket/t", "x", "bucket/t/x"),
    ],
)
def test_names_are_taken_as_they_are(table: str, address: str, path: str) -> None:
    """``%3A`` is part of a name, as Iceberg's metadata have it."""
    stored = StoredFiles(table)
    assert stored.path_of(address, stored.root) == path


def test_files_in_another_store_are_told() -> None:
    with pytest.raises(AuditFailed, match="s3://b/t/x is not in the same store as /lake/t"):
        StoredFiles("/lake/t").path_of("s3://b/t/x", "/lake/t")
