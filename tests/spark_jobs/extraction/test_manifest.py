"""The manifest's znode, and the names that are derived from ranges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.spark_jobs.extraction import manifest as manifests
from kafka_zk.spark_jobs.extraction.manifest import State
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

_names = st.text("abc.-_0", min_size=1, max_size=6)
_bounds = st.tuples(st.integers(0, 2**62), st.integers(1, 2**32))
_ranges = st.dictionaries(st.tuples(_names, st.integers(0, 20)), _bounds, min_size=1, max_size=5).map(
    lambda found: [OffsetRange(*key, start, start + size) for key, (start, size) in sorted(found.items())]
)


@given(_ranges, st.sampled_from(State))
def test_round_trip(ranges: list[OffsetRange], state: State) -> None:
    manifest = manifests.planned(ranges, "file:/lake", "parquet", "a1", 1_795_343_361_399).to(state)
    assert manifests.decode("/p", manifests.encode(manifest)) == manifest


@given(_ranges, _ranges)
def test_a_name_stands_for_one_range(left: list[OffsetRange], right: list[OffsetRange]) -> None:
    assert (manifests.range_name(left) == manifests.range_name(right)) == (left == right)
    assert manifests.range_name(left) == manifests.range_name(list(reversed(left)))


def test_names_sort_by_progress_and_attempts_have_folders_of_their_own() -> None:
    names = [manifests.range_name([OffsetRange("t", 0, start, start + 9)]) for start in (0, 9, 99, 1000)]
    assert names == sorted(names)
    first, second = (
        manifests.planned([OffsetRange("t", 0, 0, 9)], "f", "csv", attempt, 0) for attempt in ("x", "y")
    )
    assert first.name == second.name and first.staging != second.staging
    assert first.staging.startswith("_")  # hidden from readers of the target


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"version":1}', b'{"state":"planned","ranges":{"t":{"0":["1"]}}}', b'{"state":"odd","ranges":{}}'],
)
def test_what_is_no_manifest_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(InvalidZnode, match="/p"):
        manifests.decode("/p", data)
