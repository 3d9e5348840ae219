"""Applies an administrator's updates to the finalized features (KIP-584). Pure.

A ZooKeeper-based broker supports no features, so none can be finalized. Those that another cluster left in ``/feature``
can be deleted.

Source: validateFeatureUpdate and processFeatureUpdates in KafkaController.scala@3.9.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_zk.protocol.errors import ApiError, ErrorCode


class UpgradeType(enum.IntEnum):
    """Which changes of a level an update allows. Source: FeatureUpdate.java@3.9."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """``level`` below 1 with a downgrade deletes the feature. ``upgrade_type``: the number in the request, not
    validated."""

    feature: str
    level: int
    upgrade_type: int


def apply_updates(
    updates: Iterable[FeatureUpdate], finalized: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, ApiError | None]]:
    """The finalized features after the updates, and each update's error by feature. A rejected update changes
    nothing."""
    target = dict(finalized)
    outcomes: dict[str, ApiError | None] = {}
    for update in updates:
        problem = _problem(update, finalized.get(update.feature))
        outcomes[update.feature] = None if problem is None else ApiError(ErrorCode.INVALID_REQUEST, problem)
        if problem is None:
            target.pop(update.feature, None)
    return target, outcomes


def _problem(update: FeatureUpdate, existing: int | None) -> str | None:
    """Why the update is rejected; None if it deletes an existing feature."""
    _, level, kind = update
    if not update.feature:
        return "Feature name can not be empty."
    if kind not in tuple(UpgradeType):
        return "Received unknown upgrade type."
    if level < 1 and kind != UpgradeType.UPGRADE:
        return "Can not delete non-existing finalized feature." if existing is None else None
    if level < 1:
        return (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request."
        )
    if existing is not None and (problem := _problem_with_existing(level, kind, existing)) is not None:
        return problem
    return "Could not apply finalized feature update because the provided feature is not supported."


def _problem_with_existing(level: int, kind: int, existing: int) -> str | None:
    if level == existing:
        verb = "downgrade" if kind == UpgradeType.SAFE_DOWNGRADE else "upgrade"
        return f"Can not {verb} a finalized feature from existing versionLevel:{existing} to the same value."
    if level < existing and kind != UpgradeType.SAFE_DOWNGRADE:
        return (
            f"Can not downgrade finalized feature from existing versionLevel:{existing} to provided"
            f" versionLevel:{level} without setting the downgradeType to SAFE in the request."
        )
    if level > existing and kind != UpgradeType.UPGRADE:
        return (
            f"When the downgradeType is set to SAFE in the request, the provided versionLevel:{level} can not be"
            f" greater than existing versionLevel:{existing}."
        )
    return None
