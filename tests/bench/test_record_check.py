"""Checks of produced records leave a saturated broker most of its throughput."""

import pytest

from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.record_batch import read_header
from tests.bench import record_check


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_have_their_size_on_the_wire(codec: Compression) -> None:
    made = record_check.made_batch(codec, 1_000)
    assert read_header(made).size_bytes == len(made)
    assert record_check.WIRE_BYTES <= len(made) < record_check.WIRE_BYTES + 1_100


def test_checks_get_a_share_of_the_time_only() -> None:
    """Without the limit, gzip would leave an eighth of the throughput; the wide margin is for a busy machine."""
    price = record_check.price(Compression.gzip, 100, rounds=1)
    assert price.checked > 2
    assert price.kept > record_check.LEAST_KEPT - 0.2
