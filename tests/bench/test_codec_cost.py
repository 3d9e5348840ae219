"""Each hand-written reader and writer costs less than the field tables would."""

import pytest

from tests.bench.codec_cost import Sample, samples


@pytest.mark.parametrize("sample", list(samples()), ids=lambda sample: sample.name)
def test_what_is_written_by_hand_is_cheaper(sample: Sample) -> None:
    """The hand-written code saves at least a tenth; with less, the API would need no exception in decision 0004."""
    by_hand, by_tables = sample.costs()
    assert by_hand < 0.9 * by_tables
