"""kafka.tools.DumpLogSegments of 3.9.1 reads our segments and indexes without complaint, after real load."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.peers import jars, java, perf
from tests.peers.logs import dump_log
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_RECORDS = 20_000
_RECORD_SIZE_BYTES = 200


@pytest.fixture(scope="module", params=("none", "lz4"))
def loaded(request: pytest.FixtureRequest, target: Target) -> Path:
    """A partition folder with several segments, index and time index entries, written by the perf producer."""
    compression: str = request.param
    topic = f"dumped-{compression}-{uuid.uuid4().hex[:8]}"
    target.create_topic(topic, config={"segment.bytes": "700000", "index.interval.bytes": "4096"})
    payload = ["--record-size", str(_RECORD_SIZE_BYTES)]
    config = {"compression.type": compression, "batch.size": "8000", "linger.ms": "5"}
    java.run_tool(
        jars.ORACLE_VERSION, perf.MAIN_CLASS, perf.arguments(target.bootstrap, topic, _RECORDS, payload, config)
    )
    return target.partition_dir(topic, 0)


@pytest.fixture(scope="module")
def dumped(loaded: Path) -> dump_log.Dump:
    """The output of DumpLogSegments --deep-iteration for all files of that folder."""
    return dump_log.dump(dump_log.files(loaded))


def test_load_fills_several_segments(loaded: Path) -> None:
    """The other tests of this module would prove little with one segment."""
    assert len(list(loaded.glob("*.log"))) >= 3


def test_every_file_kind_is_there(loaded: Path) -> None:
    """Each segment has its index and time index, under the segment's base offset."""
    stems = {path.stem for path in loaded.glob("*.log")}
    assert {path.stem for path in loaded.glob("*.index")} == stems
    assert {path.stem for path in loaded.glob("*.timeindex")} == stems


def test_tool_has_no_complaint(dumped: dump_log.Dump) -> None:
    """There is no mismatch between index and log, no gap in the offsets, and no time index entry that cannot be
    found."""
    assert dumped.complaints == ""


def test_every_record_is_there_once_and_in_order(dumped: dump_log.Dump) -> None:
    """Offsets begin at 0 and have no gap over all segments, and every batch has a valid CRC."""
    assert dumped.invalid_batches == 0
    assert dumped.valid_batches > 100
    assert dumped.record_offsets == list(range(_RECORDS))


def test_indexes_are_filled_and_sane(loaded: Path, dumped: dump_log.Dump) -> None:
    """Both indexes have entries, and Kafka's own start-up check accepts every index of a closed segment."""
    assert dumped.index_entries > 100
    assert dumped.time_index_entries > 10
    closed = sorted(loaded.glob("*.log"))[:-1]
    indexes = [
        path for path in dump_log.files(loaded) if path.suffix == ".index" and path.with_suffix(".log") in closed
    ]
    checked = java.run_tool(
        jars.ORACLE_VERSION,
        "kafka.tools.DumpLogSegments",
        ["--index-sanity-check", "--files", ",".join(map(str, indexes))],
    )
    assert checked.text.count("passed sanity check.") == len(indexes)
    assert checked.stderr == ""
