"""Classes of stores by their schemes, and the errors for unsupported ones."""

import pytest

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.stores import Publication, check_store, missing_module, publication


@pytest.mark.parametrize("target", ["file:/lake", "hdfs://h/lake", "viewfs://c/lake"])
def test_stores_that_rename_folders_at_once(target: str) -> None:
    assert publication(target) is Publication.RENAME


@pytest.mark.parametrize("target", ["s3a://b/l", "S3A://b", "gs://b/l", "abfss://c@a.dfs/l", "wasbs://c@a/l", "new://x"])
def test_all_others_need_nothing_but_files_that_are_whole(target: str) -> None:
    assert publication(target) is Publication.COPY


@pytest.mark.parametrize("target", ["s3://bucket/lake", "S3n://bucket"])
def test_schemes_that_hadoop_has_no_more(target: str) -> None:
    with pytest.raises(WronglyAsked, match="only s3a://"):
        check_store(target)


@pytest.mark.parametrize("target", ["lake", "/lake", "file:/lake", "s3a://b/lake", "abfss://c@a.dfs/lake", "C:lake"])
def test_others_are_spark_s_to_judge(target: str) -> None:
    check_store(target)


def test_what_is_missing_is_named() -> None:
    absent = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
    told = missing_module("s3a://b/l", absent, "3.5.0")
    assert told == "--to: s3a:// needs --packages org.apache.hadoop:hadoop-aws:3.5.0"
    told = missing_module("gs://b/l", 'No FileSystem for scheme "gs"', "3.5.0")
    assert told is not None and told.startswith("--to: Spark has no file system for gs://")
    for other in ("AccessDenied", "java.lang.ClassNotFoundException: software.amazon.Other"):
        assert missing_module("s3a://b/l", other, "3.5.0") is None
