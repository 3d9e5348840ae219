from typing import Any

import pytest

from kafka_zk.protocol.remote_log_metadata import decode_remote_log_record
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogRecord


@pytest.fixture(autouse=True)
def decoded_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept records that are decoded already: clusters in memory have them, and producers write bytes."""

    def decode(value: Any) -> RemoteLogRecord:
        return decode_remote_log_record(value) if isinstance(value, bytes) else value

    monkeypatch.setattr("kafka_zk.cli.tier.gathering.decode_remote_log_record", decode)
