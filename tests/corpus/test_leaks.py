"""A slice of the search for leaks, and a planted leak that it finds."""

from typing import Any

import pytest

from kafka_zk.native.loading import Native
from tests.corpus.leaks import GROWTH_BYTES_AT_MOST, Calls, growth_bytes
from tests.corpus.requests import read

REQUESTS = 40_000
ENDINGS = {
    *((name, "done") for name in (
        "check_records", "choose", "digest", "note_keys", "plain_commit", "read_produce", "write_produce"
    )),
    *((name, "refused") for name in ("check_records", "choose", "digest", "note_keys")),
    *((name, "left to Python") for name in ("plain_commit", "read_produce", "write_produce")),
}  # fmt: skip
"""All outcomes of a call of each function."""


@pytest.mark.slow
def test_requests_and_refusals_leak_no_memory(native: Native) -> None:
    calls = Calls(native, read())
    assert growth_bytes(calls, REQUESTS) < GROWTH_BYTES_AT_MOST
    assert set(calls.outcomes) == ENDINGS
    assert min(calls.outcomes.values()) > 100


@pytest.mark.slow
def test_a_leak_is_found(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, kept = Calls(native, read()), []
    call = calls._call

    def leak(*arguments: Any) -> Any:
        kept.append(bytes(1000))  # more than earlier tests may have freed
        return call(*arguments)

    monkeypatch.setattr(calls, "_call", leak)
    assert growth_bytes(calls, REQUESTS) > GROWTH_BYTES_AT_MOST
