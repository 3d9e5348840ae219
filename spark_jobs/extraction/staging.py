"""The step STAGE of an extraction: writes records to the staging folder, and undecodable ones to the dead-letter
topic."""

from collections.abc import Iterator
from typing import Protocol

from kafka_zk.spark_jobs.errors import Undecodable
from kafka_zk.spark_jobs.extraction import dead_letters, keys
from kafka_zk.spark_jobs.extraction.dead_letters import DeadLetter
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.read_tasks import ReadTasks, read_tasks
from kafka_zk.spark_jobs.extraction.undecodable import Staged, refusal
from kafka_zk.spark_jobs.source.options import security_of
from kafka_zk.spark_jobs.waiting import Note


class StagingLake(Protocol):
    """Implemented by ``lakes_by_format.Lakes``."""

    @property
    def cores(self) -> int: ...

    def stage(self, manifest: Manifest, tasks: ReadTasks, bootstrap_servers: str) -> Staged: ...

    def undecodable(self, tasks: ReadTasks, bootstrap_servers: str) -> Iterator[DeadLetter]: ...


def stage(
    lake: StagingLake, manifest: Manifest, asked: Extraction, bootstrap_servers: str, note: Note
) -> Staged:  # fmt: skip
    """Raises Undecodable if the staged records must not be published; KafkaError, Spark's errors."""
    tasks = read_tasks(manifest.ranges, asked, lake.cores)
    offsets, partitions = sum(tasks.sizes), len(manifest.ranges)
    note(f"extracting {offsets:,} records of {partitions} partitions, in {len(tasks.sizes)} tasks")
    staged = lake.stage(manifest, tasks, bootstrap_servers)
    topic = asked.dead_letter_topic
    told = refusal(
        staged, asked.decoding, asked.on_undecodable, dead_letters=topic is not None, keys=keys.meaning(asked.keys_as)
    )
    if told is not None:
        raise Undecodable(told)
    if topic is not None and staged.undecodable:
        # Send before the offsets move: a run that repeats the ranges then finds that the letters were sent.
        letters = lake.undecodable(tasks, bootstrap_servers)
        sent = dead_letters.send(
            letters, staged.undecodable, manifest.ranges, topic=topic, group=asked.progress_group,
            bootstrap_servers=bootstrap_servers, security=security_of(asked.kafka),
        )  # fmt: skip
        note(f"sent {sent:,} undecodable records to {topic}")
    return staged
