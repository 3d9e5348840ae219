"""Request versions between brokers, by ``inter.broker.protocol.version``.

Followers and the controller do not negotiate versions. All brokers use one protocol version, which is raised when all
support it.
Source: MetadataVersion.java@3.9.
"""

import re
from typing import NamedTuple

from kafka_zk.storage.files.metadata_version import is_metadata_version

_PATTERN = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.\d+)*(?:-IV(\d+))?")
_LAST = 99  # the step of a version without "-IV", such as "3.9"; higher than all real steps
_Level = tuple[int, int, int, int]

_FETCH: tuple[tuple[_Level, int], ...] = (
    ((3, 9, 0, 0), 17),
    ((3, 7, 0, 4), 16),
    ((3, 5, 0, 1), 15),
    ((3, 5, 0, 0), 14),
    ((3, 1, 0, 0), 13),
    ((2, 7, 0, 1), 12),
    ((2, 3, 0, 1), 11),
    ((2, 1, 0, 2), 10),
    ((2, 0, 0, 1), 8),
    ((1, 1, 0, 0), 7),
    ((0, 11, 0, 1), 5),
    ((0, 11, 0, 0), 4),
)
_OFFSET_FOR_LEADER_EPOCH: tuple[tuple[_Level, int], ...] = (
    ((2, 8, 0, 0), 4),
    ((2, 3, 0, 1), 3),
    ((2, 1, 0, 1), 2),
    ((2, 0, 0, 0), 1),
    ((0, 11, 0, 2), 0),
)
_LIST_OFFSETS: tuple[tuple[_Level, int], ...] = (
    ((3, 9, 0, 0), 9),
    ((3, 5, 0, 0), 8),
    ((3, 0, 0, 1), 7),
    ((2, 8, 0, 0), 6),
    ((2, 2, 0, 1), 5),
    ((2, 1, 0, 1), 4),
    ((2, 0, 0, 1), 3),
    ((0, 11, 0, 0), 2),
)
_ALTER_PARTITION: tuple[tuple[_Level, int], ...] = (((2, 8, 0, 0), 3), ((2, 7, 0, 2), 1))
_LEADER_AND_ISR: tuple[tuple[_Level, int], ...] = (
    ((3, 4, 0, 0), 7),
    ((3, 2, 0, 0), 6),
    ((2, 8, 0, 1), 5),
    ((2, 4, 0, 1), 4),
    ((2, 4, 0, 0), 3),
    ((2, 2, 0, 0), 2),
    ((1, 0, 0, 0), 1),
    ((0, 0, 0, 0), 0),
)
_UPDATE_METADATA: tuple[tuple[_Level, int], ...] = (
    ((3, 4, 0, 0), 8),
    ((2, 8, 0, 1), 7),
    ((2, 4, 0, 1), 6),
    ((2, 2, 0, 0), 5),
    ((1, 0, 0, 0), 4),
    ((0, 0, 0, 0), 3),
)
_STOP_REPLICA: tuple[tuple[_Level, int], ...] = (
    ((3, 4, 0, 0), 4),
    ((2, 6, 0, 0), 3),
    ((2, 4, 0, 1), 2),
    ((2, 2, 0, 0), 1),
    ((0, 0, 0, 0), 0),
)
_FEATURES: _Level = (2, 7, 0, 0)
_OLDEST = "0.11.0"


class FollowerVersions(NamedTuple):
    """Versions of a follower's requests to its leader. ``offset_for_leader_epoch``: None if Fetch replaces it."""

    fetch: int
    list_offsets: int
    offset_for_leader_epoch: int | None


def follower_versions(protocol: str) -> FollowerVersions:
    """The versions for a protocol such as ``3.9-IV0``, ``3.9`` or ``0.11.0.1``.

    Raises ValueError if invalid, or older than this broker's record format (0.11).
    """
    level = _level(protocol)
    fetch = _version(_FETCH, level)
    epochs = _version(_OFFSET_FOR_LEADER_EPOCH, level)
    offsets = _version(_LIST_OFFSETS, level)
    if fetch is None or offsets is None:
        raise ValueError(f"must be {_OLDEST} or later, not {protocol!r}")
    return FollowerVersions(fetch, offsets, None if fetch >= 12 else epochs)


def alter_partition_version(protocol: str) -> int | None:
    """The highest version of AlterPartition that a leader may send; None if the leader writes the ISR to ZooKeeper
    itself.

    Raises ValueError.
    """
    return _version(_ALTER_PARTITION, _level(protocol))


class ControlVersions(NamedTuple):
    """Versions of a controller's requests to brokers."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int


LATEST_CONTROL_VERSIONS = ControlVersions(7, 8, 4)


def control_versions(protocol: str) -> ControlVersions:
    """The versions for a protocol such as ``3.9-IV0``. Raises ValueError.

    Source: ControllerChannelManager.scala@3.9.
    """
    level = _level(protocol)
    found = [_version(table, level) for table in (_LEADER_AND_ISR, _UPDATE_METADATA, _STOP_REPLICA)]
    return ControlVersions(*(0 if version is None else version for version in found))


def has_features(protocol: str) -> bool:
    """True if the brokers have finalized features (KIP-584). Raises ValueError."""
    return _level(protocol) >= _FEATURES


def _level(protocol: str) -> _Level:
    matched = _PATTERN.fullmatch(protocol)
    if matched is None or not is_metadata_version(protocol):
        raise ValueError(f"must be a version such as 3.9-IV0, not {protocol!r}")
    major, minor, patch, step = (None if group is None else int(group) for group in matched.groups())
    assert major is not None
    assert minor is not None
    # Since 1.0 the third number counts bug-fix releases, which change no protocol.
    return major, minor, (patch or 0) if major == 0 else 0, _LAST if step is None else step


def _version(table: tuple[tuple[_Level, int], ...], level: _Level) -> int | None:
    return next((version for since, version in table if level >= since), None)
