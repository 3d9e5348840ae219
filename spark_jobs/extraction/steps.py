"""The protocol of an extraction: its steps in order, and what the next run does about what an earlier one left.

Theory. The offsets in ZooKeeper say what has been extracted; the target folder shows it. Both cannot change at once, so
one leads: offsets and manifest move together in one multi (COMMIT), and from then on the records *are* extracted,
whoever has to rename the finished staging folder. Before it nothing is decided and the attempt may vanish. So

    killed before COMMIT   nothing moved: the next run extracts the same ranges again, into a folder of its own
    killed after COMMIT    the next run publishes the folder that the manifest names, then goes on

A plan binds no later run: one that is asked for other ranges, because more has come or a limit was given, drops what
was killed before COMMIT and plans its own. At no moment are records in the target whose offsets have not moved, or in
it twice. Against others: a commit of the group's offsets by anyone else changes their versions, on which COMMIT
depends; it is refused then and the staging folder dropped. A claim changes them too, so of two jobs that each believe
to own a partition one commits.

A table (Delta, Iceberg) shows records by a commit of its own, which may be refused: there the table leads and the
offsets follow. PUBLISH comes before COMMIT, and the table's commit names the plan (writer and sequence), so

    killed before PUBLISH  neither has moved: the next run extracts the same ranges again
    killed before COMMIT   the table has the plan: the next run moves the offsets, then goes on
    dropped                the plan's name is used up in the table first, so that no run that sleeps can commit it later

The steps are data so that the crash tests can kill a run at each. Tests: tests/spark_jobs/extraction/test_steps.py,
tests/integration/spark/test_extraction_protocol.py.
"""

import enum
from collections.abc import Mapping

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.extraction.manifest import Manifest, State


class Step(enum.Enum):
    """In order; the value says what is done."""

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


POINTS = tuple((step, phase) for step in Step for phase in Phase)
"""Every point of the protocol at which a run can be observed, and killed."""


class Leftover(enum.Enum):
    """What an earlier run left in the manifest, by what is to be done about it."""

    NOTHING = "nothing"
    REPEAT = "the same ranges are extracted again"
    DROP = "its attempt is forgotten"
    PUBLISH = "its folder is published"
    FOLLOW = "the table has its records, the offsets follow"


def leftover(
    manifest: Manifest | None, offsets: Mapping[TopicPartition, int], target: str, format: str, in_table: bool = False
) -> Leftover:
    """Judge by the manifest and by the group's offsets now (-1: none), which are held by this run's claims.

    REPEAT is for a run that is asked for the same ranges; another one drops them. ``in_table``: the manifest is of a
    table, which has its commit."""
    if manifest is None or not manifest.unfinished:
        return Leftover.NOTHING
    if manifest.state is State.COMMITTED:
        return Leftover.PUBLISH
    if in_table:
        return Leftover.FOLLOW
    unmoved = all(offsets.get(each.tp) == each.from_offset for each in manifest.ranges)
    wanted = (manifest.target, manifest.format) == (target, format)
    return Leftover.REPEAT if unmoved and wanted else Leftover.DROP
