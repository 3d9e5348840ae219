"""The protocol of an extraction: its steps in order, and how a run handles the leftovers of an earlier one.

The offsets in ZooKeeper record what has been extracted, and the target folder contains the records. Both cannot change
in one step, so the offsets change first: COMMIT moves offsets and manifest together in one multi. From then on the
records count as extracted, even if another run renames the staging folder. Before COMMIT the attempt may be dropped. So

    killed before COMMIT   nothing moved: the next run extracts the same ranges again, into its own folder
    killed after COMMIT    the next run publishes the folder that the manifest names, then continues

A plan does not bind later runs. If a run has other ranges, because of new records or a limit, it drops an attempt that
was killed before COMMIT and makes its own plan. The target never contains records whose offsets have not moved, and
never contains a record twice. If another client commits the group's offsets, their versions change, COMMIT is refused,
and the staging folder is dropped. A claim changes the versions, too, so only one of two jobs that both believe that
they own a partition commits.

A table (Delta, Iceberg) shows records by its own commit, which may be refused. Therefore the table changes first and
the offsets follow: PUBLISH comes before COMMIT, and the table's commit names the plan (writer and sequence), so

    killed before PUBLISH  neither has moved: the next run extracts the same ranges again
    killed before COMMIT   the table has the plan: the next run moves the offsets, then continues
    dropped                the plan's name is first used up in the table, so that a paused run cannot commit it later

The steps are data, so that crash tests can kill a run at each step.
"""

import enum
from collections.abc import Mapping

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.extraction.manifest import Manifest, State


class Step(enum.Enum):
    JOIN = "register as a member of the group"
    CLAIM = "own the partitions"
    SETTLE = "finish or drop what an earlier run left"
    PLAN = "write the manifest"
    STAGE = "write the records to the staging folder"
    COMMIT = "move the offsets and the manifest in one multi"
    PUBLISH = "rename the staging folder to the range's name, or commit it to the table"
    CLOSE = "mark the manifest as published"
    LEAVE = "give the partitions back and leave the group"


class Phase(enum.Enum):
    BEGIN = "begin"
    END = "end"


class Leftover(enum.Enum):
    """How this run handles what an earlier run left in the manifest."""

    NOTHING = "nothing"
    REPEAT = "the same ranges are extracted again"
    DROP = "its attempt is forgotten"
    PUBLISH = "its folder is published"
    FOLLOW = "the table has its records, the offsets follow"


def has_begun(manifest: Manifest, in_table: bool) -> bool:
    """False if certainly no plan of the manifest's group has made records visible. ``in_table``: the table has the
    manifest's commit."""
    return in_table or manifest.sequence > 0 or manifest.state in (State.COMMITTED, State.PUBLISHED)


def leftover(
    manifest: Manifest | None, offsets: Mapping[TopicPartition, int], target: str, format: str, in_table: bool = False
) -> Leftover:
    """``offsets``: the group's offsets (-1: none), which this run's claims protect.

    REPEAT applies to a run of the same ranges; other runs drop the attempt. ``in_table``: the table has the manifest's
    commit.
    """
    if manifest is None or not manifest.unfinished:
        return Leftover.NOTHING
    if manifest.state is State.COMMITTED:
        return Leftover.PUBLISH
    if in_table:
        return Leftover.FOLLOW
    unmoved = all(offsets.get(each.tp) == each.from_offset for each in manifest.ranges)
    wanted = (manifest.target, manifest.format) == (target, format)
    return Leftover.REPEAT if unmoved and wanted else Leftover.DROP
