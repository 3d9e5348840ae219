"""The judge of the tiered campaign, with wrong files and wrong reads."""

from pathlib import Path

import pytest

from kafka_zk.storage.tiered.local_tiered_storage import FOLDER
from tests.soak.replication_history import Read, values
from tests.soak.replication_rounds import TOPIC
from tests.soak.tiered_rounds import misread, remote_batches, whole_log
from tests.storage.helpers import batch

ACKNOWLEDGED = {0: {0: b"a", 2: b"c"}}
ALL = [Read(0, b"a"), Read(1, b"b"), Read(2, b"c")]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (ALL[:2], "was not given 1 acknowledged records, first 2"),
        ([*ALL[:2], Read(2, b"x")], "was not given 1 acknowledged records, first 2"),
        ([ALL[0], *ALL], "was given offset 0 where 1 follows"),
        ([ALL[0], ALL[2]], "was given offset 2 where 1 follows"),
        ([], "was not given 2 acknowledged records, first 0"),
    ],
    ids=["lost", "replaced", "twice", "gap", "nothing"],
)
def test_what_a_reader_is_not_given_once_is_found(given: list[Read], problem: str) -> None:
    assert list(misread({0: given}, ACKNOWLEDGED)) == [f"partition 0: {problem}"]
    assert not list(misread({0: ALL}, ACKNOWLEDGED))


def at(offset: int, value: bytes) -> bytes:
    """A batch of one record."""
    return offset.to_bytes(8, "big") + batch(value=value)[8:]


def store(tier: Path, name: str, *batches: bytes) -> None:
    path = tier / FOLDER / f"{TOPIC}-0-id" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(batches))


def test_a_log_is_its_remote_records_and_its_own(tmp_path: Path) -> None:
    """The remains of a failed copy do no harm."""
    store(tmp_path, "0-x", at(0, b"a"), at(1, b"b"))
    store(tmp_path, "0-failed", at(0, b"a"), at(1, b"b")[:-1])
    assert values(whole_log(remote_batches(tmp_path, 0), at(1, b"b") + at(2, b"c"))) == {0: b"a", 1: b"b", 2: b"c"}


def test_objects_with_different_records_at_an_offset_are_found(tmp_path: Path) -> None:
    store(tmp_path, "0-x", at(0, b"a"))
    store(tmp_path, "0-y", at(0, b"b"))
    with pytest.raises(AssertionError, match=r"0-y\.log has another batch at 0"):
        remote_batches(tmp_path, 0)
