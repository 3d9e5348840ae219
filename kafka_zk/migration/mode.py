"""Derives a node's mode and release from its ApiVersions response. Pure.

Source: the responses of Kafka 3.9.1 in each mode, and the message definitions of Kafka 2.4 to 3.9.
"""

import enum

from kafka_zk.migration.facts import ApiVersions
from kafka_zk.protocol.api_keys import ApiKey


class Mode(enum.StrEnum):
    ZOOKEEPER = "ZooKeeper"
    MIGRATION = "migration"
    KRAFT = "KRaft"
    CONTROLLER = "controller"


_LEADER_AND_ISR_OF_3_4 = 7
_RELEASES = ((17, (3, 9)), (16, (3, 7)), (14, (3, 5)), (13, (3, 1)), (12, (2, 7)), (11, (2, 3)))
"""The highest version of Fetch, and the first release that has it."""

MIGRATION_SINCE = (3, 4)


def mode_of(api: ApiVersions) -> Mode:
    """Only brokers have Metadata, and only KRaft nodes have DescribeQuorum."""
    if ApiKey.METADATA not in api.versions:
        return Mode.CONTROLLER
    if ApiKey.DESCRIBE_QUORUM in api.versions:
        return Mode.KRAFT
    return Mode.MIGRATION if api.is_migration_ready else Mode.ZOOKEEPER


def oldest_release(api: ApiVersions) -> tuple[int, int]:
    """The oldest release, such as (3, 7), that offers these versions; (0, 0) before 2.3."""
    fetch = api.versions.get(ApiKey.FETCH, -1)
    release = next((release for version, release in _RELEASES if fetch >= version), (0, 0))
    if release == (3, 1) and api.versions.get(ApiKey.LEADER_AND_ISR, -1) >= _LEADER_AND_ISR_OF_3_4:
        return MIGRATION_SINCE
    return release
