"""Which versions there are, as Apache Kafka 3.9.1 was seen to accept them."""

import pytest

from kafka_zk.storage.files.metadata_version import is_metadata_version


@pytest.mark.parametrize(
    "text",
    ["0.8.0", "0.9.0.1", "0.10.2-IV0", "0.11.0.3", "1.0", "2.8", "2.8.1-IV7", "3.0-IV1", "3.7-IV4", "3.9", "3.9-IV0",
     "3.9.1", "4.0-IV0"],
)  # fmt: skip
def test_versions(text: str) -> None:
    """Beyond its release nothing of a version counts."""
    assert is_metadata_version(text)


@pytest.mark.parametrize(
    "text",
    ["", "2", "3", "3.9x", "3.9-IV1", "3.9-IVx", "3.9.", "4.0", "9.9", "0.8", "0.10.2-IV1", "0.11", "3.10", "1.2",
     "3.9 ", "\u0663.9"],
)  # fmt: skip
def test_what_is_not_a_version(text: str) -> None:
    assert not is_metadata_version(text)
