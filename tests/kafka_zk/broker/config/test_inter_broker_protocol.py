"""Versions by ``inter.broker.protocol.version``, as Kafka 3.9.1 was seen to use them."""

import pytest

from kafka_zk.broker.config.inter_broker_protocol import alter_partition_version, control_versions, follower_versions


@pytest.mark.parametrize(
    ("protocol", "versions"),
    [
        ("1.0", (5, 2, 0)),
        ("1.0-IV0", (5, 2, 0)),
        ("2.3", (11, 5, 3)),
        ("2.3-IV0", (10, 5, 2)),
        ("2.6", (11, 5, 3)),
        ("2.7", (12, 5, None)),
        ("2.8", (12, 6, None)),
        ("3.2", (13, 7, None)),
        ("3.5", (15, 8, None)),
        ("3.9", (17, 9, None)),
        ("3.9-IV0", (17, 9, None)),
        ("3.9.1", (17, 9, None)),
        ("0.11.0.1", (5, 2, 0)),
    ],
)
def test_each_protocol_has_its_versions(protocol: str, versions: tuple[int, int, int | None]) -> None:
    assert follower_versions(protocol) == versions


@pytest.mark.parametrize("protocol", ["", "3", "3.9-IVx", "3.9 ", "0.10.2", "x.y", "9.9", "3.9-IV1", "4.0"])
def test_other_protocols_are_refused(protocol: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        follower_versions(protocol)


@pytest.mark.parametrize(
    ("protocol", "version"),
    [("1.0", None), ("2.6", None), ("2.7-IV1", None), ("2.7-IV2", 1), ("2.7", 1), ("2.8-IV0", 3), ("3.9", 3)],
)
def test_leaders_ask_for_another_isr_since_2_7_and_name_topics_by_id_since_2_8(
    protocol: str, version: int | None
) -> None:
    assert alter_partition_version(protocol) == version


@pytest.mark.parametrize(
    ("protocol", "versions"),
    [
        ("0.11.0", (0, 3, 0)),
        ("1.0", (1, 4, 0)),
        ("2.3", (2, 5, 1)),
        ("2.4-IV0", (3, 5, 1)),
        ("2.6", (4, 6, 3)),
        ("2.7", (4, 6, 3)),
        ("2.8-IV0", (4, 6, 3)),
        ("2.8", (5, 7, 3)),
        ("3.2", (6, 7, 3)),
        ("3.5", (7, 8, 4)),
        ("3.9", (7, 8, 4)),
    ],
)
def test_a_controller_sends_what_the_protocol_has(protocol: str, versions: tuple[int, int, int]) -> None:
    assert control_versions(protocol) == versions
