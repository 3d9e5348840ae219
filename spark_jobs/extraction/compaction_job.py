"""A compaction as a member of its group, so that no extraction or other compaction runs at the same time."""

import socket
from typing import Any

from kafka_zk.base.clock import monotonic_s, wall_ms
from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.registration import max_leftover_ms
from kafka_zk.spark_jobs.errors import ExtractionFailed, GroupBusy
from kafka_zk.spark_jobs.extraction.compaction import Compacted, compact
from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.hold import GroupHold
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.rewriter import SparkRewriter
from kafka_zk.spark_jobs.extraction.schemas.parquet_schemas import schemas_of_folders

SESSION_TIMEOUT_MS = 10_000
_POLL_MS = 200


def compact_target(spark: Any, zookeeper: str, group: str, target: str, target_file_bytes: int) -> Compacted:
    """Compact the folders of the group's extractions. Raises: GroupBusy, ExtractionFailed, RegistryError, and Spark's
    errors. After any of them the next compaction continues.
    """
    attempt = random_uuid(SYSTEM_RANDOM).hex[:12]
    files = HadoopFiles(spark)
    folders = RangeFolders(files, lambda paths: int(spark.read.parquet(*paths).count()))
    schemas = schemas_of_folders(spark, folders)
    with KazooBlockingClient(zookeeper, SESSION_TIMEOUT_MS) as client:
        hold = GroupHold(client, group, f"{group}_{socket.gethostname()}-{wall_ms()}-{attempt[:8]}")
        try:
            _join(client, hold, group)
            manifest = run_blocking(hold.read_manifest())
            if manifest is not None and manifest.unfinished:
                raise ExtractionFailed(f"an extraction of group {group} was not completed: run it again first")
            return compact(
                folders, schemas, SparkRewriter(spark), files.qualified(target), group, target_file_bytes, attempt,
                lambda: _check_member(hold, group),
            )  # fmt: skip
        finally:
            run_blocking(hold.leave())


def _check_member(hold: GroupHold, group: str) -> None:
    if not run_blocking(hold.is_member()):
        raise GroupBusy(f"the session with ZooKeeper ended, so another member may own group {group}: run it again")


def _join(client: KazooBlockingClient, hold: GroupHold, group: str) -> None:
    """Raises GroupBusy if other members do not leave within a session timeout."""
    run_blocking(hold.join((), wall_ms()))
    deadline_s = monotonic_s() + max_leftover_ms(client.session_timeout_ms) / 1000
    while elders := run_blocking(hold.elders()):
        if monotonic_s() >= deadline_s:
            raise GroupBusy(f"{', '.join(elders)} is a live member of group {group}: compact while no extraction runs")
        client.process(_POLL_MS)
