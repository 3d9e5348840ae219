"""Spark's data source ``kafka_zk``, and the extraction, which commits its offsets in ZooKeeper or its table."""

from typing import TYPE_CHECKING

from kafka_zk.base.public_names import lazy

if TYPE_CHECKING:
    from kafka_zk.spark_jobs.extraction.job import extract, plan
    from kafka_zk.spark_jobs.extraction.planning import Extraction
    from kafka_zk.spark_jobs.session import spark_session
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "Extraction": "kafka_zk.spark_jobs.extraction.planning",
            "extract": "kafka_zk.spark_jobs.extraction.job",
            "plan": "kafka_zk.spark_jobs.extraction.job",
            "spark_session": "kafka_zk.spark_jobs.session",
        },
    )

__all__ = [
    "Extraction",
    "extract",
    "plan",
    "spark_session",
]
