"""No secret is kept in a recording or shown on the page, including those that an earlier version kept."""

import json
from pathlib import Path

import pytest

from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.web.sources import without_secrets
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, DataSet, Operation, Restored, Transaction
from kafka_zk.registry.znodes.secrets import HIDDEN

SECRET = "stored_key=c2VjcmV0"
PATH = "/config/users/alice"
DATA = json.dumps({"version": 1, "config": {"SCRAM-SHA-256": SECRET}}).encode()


@pytest.mark.parametrize(
    ("operation", "chroot"),
    [
        (Created(PATH, DATA, False), ""),
        (DataSet(PATH, DATA, 1), ""),
        (Created("/alice", DATA, False), "/config/users"),
        (Restored({PATH: Znode(DATA, 0, 1, 1, 1, 0)}), ""),
    ],
)
def test_what_is_recorded_has_no_secrets(tmp_path: Path, operation: Operation, chroot: str) -> None:
    recording = Recording(tmp_path / "r")
    recording.add([], [without_secrets(Transaction(1, 1, 0, (operation,)), chroot)])
    recording.close()
    kept = (tmp_path / "r").read_bytes()
    assert SECRET.encode() not in kept and HIDDEN.encode() in kept


def test_an_earlier_recording_is_shown_and_exported_without_its_secrets(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "old")
    recording.add([], [Transaction(1, 1000, 0, (Created(PATH, DATA, False),))])
    recording.close()
    assert SECRET.encode() in (tmp_path / "old").read_bytes(), "the recording has no secret to hide"
    api = RecordingApi(Recording(tmp_path / "old", read_only=True))
    told = [
        api.znode({"path": PATH, "seq": "1"}),
        api.tree({"seq": "1"}),
        api.entry({"seq": "1"}),
        api.entries({"from_ms": "0", "to_ms": "9999"}),
    ]
    assert SECRET not in json.dumps(told)
    assert HIDDEN in json.dumps(told)
    for _ in api.export({"from_ms": "0", "to_ms": "9999"}, tmp_path / "part"):
        pass
    part = Recording(tmp_path / "part", read_only=True)
    assert not [row for row in part.database.iterdump() if SECRET in row]
