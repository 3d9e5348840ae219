"""The versions that Apache Kafka 3.9.1 accepts."""

import pytest

from kafka_zk.storage.files.metadata_version import feature_level, is_metadata_version, name_of_level


@pytest.mark.parametrize(
    "text",
    ["0.8.0", "0.9.0.1", "0.10.2-IV0", "0.11.0.3", "1.0", "2.8", "2.8.1-IV7", "3.0-IV1", "3.7-IV4", "3.9", "3.9-IV0",
     "3.9.1", "4.0-IV0"],
)  # fmt: skip
def test_versions(text: str) -> None:
    """The part of a version after the release is ignored."""
    assert is_metadata_version(text)


@pytest.mark.parametrize(
    "text",
    ["", "2", "3", "3.9x", "3.9-IV1", "3.9-IVx", "3.9.", "4.0", "9.9", "0.8", "0.10.2-IV1", "0.11", "3.10", "1.2",
     "3.9 ", "\u0663.9"],
)  # fmt: skip
def test_what_is_not_a_version(text: str) -> None:
    assert not is_metadata_version(text)


@pytest.mark.parametrize(
    ("text", "level"),
    [("3.9-IV0", 21), ("3.9", 21), ("3.9.1", 21), ("3.7", 19), ("3.7-IV2", 17), ("3.6-IV2", 14), ("3.4", 8),
     ("3.0-IV1", 1), ("3.0-IV0", 0), ("2.8", 0), ("0.10.2", 0), ("9.9", None), ("", None)],
)  # fmt: skip
def test_levels_of_the_feature(text: str, level: int | None) -> None:
    """The levels are those of 3.9.1: 3.6-IV2 is 14, 3.7-IV4 is 19, 3.9-IV0 is 21."""
    assert feature_level(text) == level


def test_names_of_levels() -> None:
    assert (name_of_level(14), name_of_level(19), name_of_level(21), name_of_level(99)) == (
        "3.6-IV2", "3.7-IV4", "3.9-IV0", "level 99",
    )  # fmt: skip
