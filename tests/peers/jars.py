"""Apache Kafka's jars, resolved once by Maven from `tests/peers/poms/<version>/pom.xml` into `target/peers/<version>`.

`python -m tests.peers.jars [VERSION ...]` resolves them ahead of the tests (all versions by default).
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from tests.locks import alone

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY_ROOT / "target" / "peers"
POMS = Path(__file__).resolve().parent / "poms"

#: The broker that is the oracle, and the newest release that still runs on ZooKeeper.
ORACLE_VERSION = "3.9.1"
#: Today's clients.
NEWEST_VERSION = "4.3.0"
#: Magic 0 and magic 1, the Scala clients, and tools that write to ZooKeeper.
MAGIC_0_VERSION = "0.8.2.2"
MAGIC_1_VERSION = "0.10.2.2"
LEGACY_VERSIONS = (MAGIC_0_VERSION, MAGIC_1_VERSION)
#: Spark's own Kafka source: no Kafka version, but resolved in the same way.
SPARK_KAFKA = "spark-kafka"
#: Kafka Streams, Connect's file connector and MirrorMaker 2, of the oracle's version.
APPLICATIONS = "applications"
#: Flink with its Kafka connector.
FLINK = "flink"
#: S3 for Hadoop, with the parts of Amazon's SDK that it uses instead of the bundle of 650 MB; Delta Lake; Iceberg.
SPARK_S3, SPARK_DELTA, SPARK_ICEBERG = "spark-s3", "spark-delta", "spark-iceberg"
#: S3 for the Hadoop of the older Spark with which Iceberg runs.
SPARK_4_1_S3 = "spark-4.1-s3"
#: Hadoop's mini cluster.
HDFS = "hdfs"
#: Kafka's LocalTieredStorage, from the tests of the oracle.
TIERED_STORAGE = "tiered-storage"
OTHERS = (SPARK_KAFKA, APPLICATIONS, FLINK, SPARK_S3, SPARK_4_1_S3, SPARK_DELTA, SPARK_ICEBERG, HDFS,
          TIERED_STORAGE)  # fmt: skip
#: Brokers with ZooKeeper that tests.peers.clusters.record_migration starts; no test needs them.
RECORDED_VERSIONS = ("2.4.1", "2.8.2", "3.3.2", "3.4.1", "3.6.2", "3.7.2")
VERSIONS = tuple(sorted(folder.name for folder in POMS.iterdir() if folder.name not in (*OTHERS, *RECORDED_VERSIONS)))

_RESOLVE_TIMEOUT_S = 900


class JarsNotResolved(Exception):
    """Maven did not deliver the jars; carries its output."""


def jars(version: str) -> Path:
    """The folder with all jars of one Kafka version, resolved on first use.

    The folder appears by one rename, so a half-finished download is never taken for a whole one;
    it is resolved again when its pom changes.
    Raises: JarsNotResolved.
    """
    pom = POMS / version / "pom.xml"
    stamp = hashlib.sha256(pom.read_bytes()).hexdigest()
    folder = CACHE / version
    if not _is_of(folder, stamp):
        with alone_with_maven():
            if not _is_of(folder, stamp):
                _resolve(pom, stamp, folder)
    return folder


def alone_with_maven() -> AbstractContextManager[None]:
    """Maven's local repository allows only one process at a time."""
    return alone(CACHE / "maven")


def _is_of(folder: Path, stamp: str) -> bool:
    stamp_file = folder / "pom.sha256"
    return stamp_file.exists() and stamp_file.read_text() == stamp


def _resolve(pom: Path, stamp: str, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _copy_dependencies(pom, partial)
    (partial / "pom.sha256").write_text(stamp)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def class_path(version: str) -> str:
    """A Java class path of all jars of one version."""
    return f"{jars(version)}/*"


def _copy_dependencies(pom: Path, folder: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_RESOLVE_TIMEOUT_S)
    if done.returncode != 0 or not any(folder.glob("*.jar")):
        raise JarsNotResolved(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    for each in sys.argv[1:] or (*VERSIONS, *OTHERS):
        print(each, jars(each), flush=True)
