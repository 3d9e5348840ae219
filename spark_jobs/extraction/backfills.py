"""Checks and messages for backfills: each has one target, and a run may find nothing. Pure.

A backfill's progress is in a group of its own, see ``Extraction.progress_group``.
"""

import os.path

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.steps import has_begun


def check_target(last: Manifest, target: str, format: str, in_table: bool) -> None:
    """Check that a backfill keeps its target, so that its records are not divided between two targets. Raises
    WronglyAsked.

    ``target``: as Spark names it. ``in_table``: the table has the last manifest's commit.
    """
    if has_begun(last, in_table) and (last.target, last.format) != (target, format):
        raise WronglyAsked(
            f"this backfill was begun into {last.target} ({last.format}): repeat it with that --to and --format, "
            "or give another --group for a backfill of its own"
        )


def may_have_another_target(last: Manifest, extraction: Extraction, working_folder: str) -> bool:
    """True if only Spark can tell whether the extraction has the target of the last run.

    A name without a scheme counts as a local folder; only Spark knows whether it is one.
    """
    target = extraction.target.rstrip("/")
    if ":" not in target:
        target = f"file:{os.path.normpath(os.path.join(working_folder, target))}"
    return (last.target, last.format) != (target, extraction.format)


def nothing_found(last: Manifest | None) -> str:
    """Why a run had nothing to extract."""
    if last is not None and has_begun(last, in_table=False):
        return f"nothing is new for this backfill; its earlier runs extracted into {last.target}"
    return "the topics have no readable records from --from to --until"
