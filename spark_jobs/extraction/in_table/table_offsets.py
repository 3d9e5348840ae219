"""The offsets of an extraction without ZooKeeper, stored as application transactions of its Delta table, one per
partition. Pure.

    appId     kafka-zk/<group>/<topic>/<topic id>/<partition>
    version   the offset at which the next run begins

The commit that adds records moves their offsets, so neither happens without the other. Delta keeps the newest version
of every application in its checkpoints, even after a clean-up.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import ExtractionFailed, ForeignCommit
from kafka_zk.spark_jobs.extraction.manifest import APPLICATION_PREFIX

_PREFIX = "kafka-zk/"
_NO_ID = "-"
"""Stands for the topic id if the cluster has no topic ids."""
NO_OFFSET = -1

TopicIds = Mapping[str, str]
"""Topics without an id are absent."""


class TableOffsets(NamedTuple):
    """A group's next offsets. ``offsets``: of the requested partitions; NO_OFFSET where the group has none.
    ``outdated``: offsets that belong to an earlier topic of the same name."""

    offsets: dict[TopicPartition, int]
    outdated: dict[TopicPartition, int]


def application(group: str, tp: TopicPartition, ids: TopicIds) -> str:
    return f"{_PREFIX}{group}/{tp.topic}/{ids.get(tp.topic, _NO_ID)}/{tp.partition}"


def table_offsets(
    versions: Mapping[str, int], group: str, tps: Iterable[TopicPartition], ids: TopicIds
) -> TableOffsets:  # fmt: skip
    """``versions``: application id -> version, for all application transactions of the table.

    An offset that was stored without a topic id belongs to the present topic, because the cluster had no ids then.
    """
    known = _by_partition(versions, group)
    offsets, outdated = {}, {}
    for tp in tps:
        of_ids = known.get(tp, {})
        current = of_ids.get(ids.get(tp.topic, _NO_ID), of_ids.get(_NO_ID))
        offsets[tp] = NO_OFFSET if current is None else current
        if current is None and of_ids:
            outdated[tp] = max(of_ids.values())
    return TableOffsets(offsets, outdated)


def _by_partition(versions: Mapping[str, int], group: str) -> dict[TopicPartition, dict[str, int]]:
    """The group's offsets: partition -> topic id -> offset."""
    prefix = f"{_PREFIX}{group}/"
    found: dict[TopicPartition, dict[str, int]] = {}
    for name, version in versions.items():
        if not name.startswith(prefix):
            continue
        topic, topic_id, partition = name.removeprefix(prefix).split("/")
        found.setdefault(TopicPartition(topic, int(partition)), {})[topic_id] = version
    return found


def check_unmoved(expected: Mapping[TopicPartition, int], found: Mapping[TopicPartition, int], group: str) -> None:
    """Raises ForeignCommit if a commit has moved an offset since the ranges were planned."""
    for tp, offset in sorted(expected.items()):
        if found[tp] != offset:
            raise ForeignCommit(
                f"another extraction of group {group} has moved the table's offset of {tp} to {found[tp]} meanwhile"
            )


def check_no_other_offsets(versions: Mapping[str, int], found: TableOffsets, group: str) -> None:
    """Raises ExtractionFailed if the group is new to a table with records whose offsets are in ZooKeeper."""
    is_new = not found.outdated and all(offset == NO_OFFSET for offset in found.offsets.values())
    if is_new and any(name.startswith(APPLICATION_PREFIX) for name in versions):
        raise ExtractionFailed(
            f"the table has records of extractions with --zookeeper and no offsets of group {group}, so the records of "
            "these topics could be there twice: give --zookeeper again, or another --to"
        )
