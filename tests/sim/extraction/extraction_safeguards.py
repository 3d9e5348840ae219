"""Safeguards of the extraction that can be removed for a run: the judge must notice.

``python -m tests.sim.extraction.extraction_safeguards NAME --seeds 0-24`` plays until it does.
"""

import sys
from typing import Any

import pytest

from kafka_zk.registry.client.client import Check, SetData
from kafka_zk.sim.campaign.run import Outcome
from kafka_zk.sim.zookeeper.client import SimClient
from kafka_zk.spark_jobs.extraction import job
from kafka_zk.spark_jobs.extraction import manifest as manifests
from kafka_zk.spark_jobs.extraction.hold import GroupHold
from kafka_zk.spark_jobs.extraction.job import ExtractionRun
from kafka_zk.spark_jobs.extraction.manifest import Manifest, State
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.steps import Leftover, leftover
from tests.sim import taken_out
from tests.sim.extraction.drivers import play_extraction
from tests.sim.extraction.memory_lake import MemoryLake
from tests.sim.taken_out import TakeOut


def _at_any_version(operation: Any) -> Any:
    return operation._replace(version=-1) if isinstance(operation, SetData | Check) else operation


def versions_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """Offsets and manifest are overwritten unconditionally."""
    multi = SimClient.multi

    def unconditional(client: SimClient, operations: Any) -> Any:
        return multi(client, [_at_any_version(each) for each in operations])

    patch.setattr(SimClient, "multi", unconditional)


def published_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    """The folder becomes visible before the offsets move."""

    async def make_visible(run: ExtractionRun, manifest: Manifest) -> None:
        await run._publish(manifest)
        await run._commit(manifest)
        await run._close(manifest)

    patch.setattr(ExtractionRun, "_make_visible", make_visible)


def committed_ranges_are_left_alone(patch: pytest.MonkeyPatch) -> None:
    """A run does not publish what another run has committed."""

    def nothing(manifest: Manifest | None, *more: Any) -> Leftover:
        is_committed = manifest is not None and manifest.state is State.COMMITTED
        return Leftover.NOTHING if is_committed else leftover(manifest, *more)

    patch.setattr(job, "leftover", nothing)


def planned_ranges_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A run does not check whether the table already contains an unfinished plan."""
    patch.setattr(MemoryLake, "in_table", lambda lake, manifest: False)


def a_lost_answer_is_a_refusal(patch: pytest.MonkeyPatch) -> None:
    """A commit that took effect, but whose response was lost, counts as one that another client prevented."""

    async def written(hold: GroupHold, data: bytes) -> bool:
        return False

    patch.setattr(GroupHold, "_written", written)


def attempts_share_their_staging(patch: pytest.MonkeyPatch) -> None:
    """All attempts stage in the same folder, including files of a killed run."""
    planned = manifests.planned

    def shared(ranges: Any, target: str, format: str, attempt: str, *more: Any) -> Manifest:
        return planned(ranges, target, format, "attempt", *more)

    patch.setattr(manifests, "planned", shared)
    patch.setattr(RangeFolders, "discard", lambda folders, manifest: None)


def claims_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    """A run handles leftovers of others by the offsets that it has claimed, without checking the claims again."""

    async def nothing(hold: GroupHold) -> None: ...

    patch.setattr(GroupHold, "_check_claims", nothing)


SAFEGUARDS: dict[str, TakeOut] = {
    take_out.__name__: take_out
    for take_out in (
        versions_do_not_count,
        published_before_it_is_committed,
        committed_ranges_are_left_alone,
        planned_ranges_are_forgotten,
        a_lost_answer_is_a_refusal,
        attempts_share_their_staging,
        claims_are_not_checked,
    )
}


def play_extraction_without(name: str, seed: int) -> Outcome:
    """A run without one of ``SAFEGUARDS``."""
    return taken_out.play_without(SAFEGUARDS[name], play_extraction, seed)


if __name__ == "__main__":
    sys.exit(taken_out.find("tests.sim.extraction.extraction_safeguards", SAFEGUARDS, play_extraction, "0-24"))
