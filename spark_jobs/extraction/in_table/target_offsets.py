"""Extractions without ZooKeeper need a target that moves offsets and adds records in one commit. Pure."""

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.table_formats import DELTA


def check(asked: Extraction) -> None:
    """Raises WronglyAsked."""
    if asked.format != DELTA:
        raise WronglyAsked(
            f"--bootstrap-server needs --format {DELTA}: only a Delta table has the offsets in the commit that adds "
            "the records; give --zookeeper for other formats"
        )
    refused = {
        "--cdc": asked.cdc is not None,
        "--merge-schema": asked.merge_schema,
        "--widen": asked.widen,
        "--wait": asked.wait_ms > 0,  # there are no members to wait for
    }
    if (option := next((name for name, given in refused.items() if given), None)) is not None:
        raise WronglyAsked(f"--bootstrap-server cannot be combined with {option}: give --zookeeper")
