"""How each class of store makes a staged range visible; decision 0017 describes the classes."""

import enum
import re
from urllib.parse import urlsplit

from kafka_zk.spark_jobs.errors import WronglyAsked

_RENAMING = frozenset({"file", "hdfs", "viewfs", "webhdfs", "swebhdfs"})
_MODULES = {"s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure"}
_NO_FILE_SYSTEM = re.compile(r"ClassNotFoundException: Class \S*FileSystem not found|No FileSystem for scheme")
_OLD_NAMES = {"s3": "s3a", "s3n": "s3a"}


class Publication(enum.Enum):
    RENAME = "one rename of the staging folder"
    COPY = "a rename of each staged file, then the folder's description"


def publication(uri: str) -> Publication:
    """Stores that are not known to rename folders atomically get COPY, which is always safe."""
    return Publication.RENAME if scheme_of(uri) in _RENAMING else Publication.COPY


def scheme_of(uri: str) -> str:
    return urlsplit(uri).scheme.lower()


def check_store(target: str) -> None:
    """Hadoop no longer supports some schemes. Raises WronglyAsked."""
    scheme = scheme_of(target)
    if scheme in _OLD_NAMES:
        raise WronglyAsked(f"--to: Hadoop has no file system {scheme}://, only {_OLD_NAMES[scheme]}://")


def missing_module(target: str, failure: str, hadoop_version: str) -> str | None:
    """The package to add if Hadoop does not find a file system's class; None for other failures."""
    scheme = scheme_of(target)
    if not _NO_FILE_SYSTEM.search(failure):
        return None
    if scheme in _MODULES:
        return f"--to: {scheme}:// needs --packages org.apache.hadoop:{_MODULES[scheme]}:{hadoop_version}"
    return f"--to: Spark has no file system for {scheme}://: add its jars with --packages"
