"""The mode and release of a node, from the API versions that real nodes were seen to offer."""

import pytest

from kafka_zk.migration.facts import ApiVersions
from kafka_zk.migration.mode import Mode, mode_of, oldest_release
from tests.kafka_zk.migration import recorded


@pytest.mark.parametrize(
    ("api", "mode"),
    [
        (recorded.ZOOKEEPER_MODE, Mode.ZOOKEEPER), (recorded.MIGRATION_MODE, Mode.MIGRATION),
        (recorded.KRAFT_MODE, Mode.KRAFT), (recorded.READY, Mode.CONTROLLER), (recorded.NOT_READY, Mode.CONTROLLER),
    ],
)  # fmt: skip
def test_modes(api: ApiVersions, mode: Mode) -> None:
    assert mode_of(api) is mode


@pytest.mark.parametrize(
    ("fetch", "leader_and_isr", "release"),
    [(17, 7, (3, 9)), (16, 7, (3, 7)), (15, 7, (3, 5)), (13, 7, (3, 4)), (13, 6, (3, 1)), (12, 5, (2, 7)),
     (11, 4, (2, 3)), (4, 0, (0, 0))],
)  # fmt: skip
def test_releases(fetch: int, leader_and_isr: int, release: tuple[int, int]) -> None:
    assert oldest_release(ApiVersions({1: fetch, 4: leader_and_isr})) == release
