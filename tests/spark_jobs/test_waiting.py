"""The user is notified of a wait after a second, with its cause and maximum, and again when the cause changes."""

import threading

import pytest

from kafka_zk.spark_jobs import waiting
from kafka_zk.spark_jobs.errors import FetchFailed
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings, ClusterClient
from kafka_zk.spark_jobs.waiting import Wait


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TOLD_AFTER_S", 0)


def test_a_long_wait_is_told_once_for_each_cause(soon: None) -> None:
    told: list[str] = []
    heard = threading.Event()

    def note(text: str) -> None:
        told.append(text)
        heard.set()

    with Wait(note, 120_000, "no answer from h:1") as wait:
        assert heard.wait(60)
        wait.because("no answer from h:1")
        wait.because("partition t-0 has no leader")
    assert told == ["waiting up to 120 s: no answer from h:1", "waiting up to 120 s: partition t-0 has no leader"]


def test_a_short_one_is_not() -> None:
    told: list[str] = []
    with Wait(told.append, 120_000, "no answer from h:1") as wait:
        wait.because("partition t-0 has no leader")
    assert told == []


def test_brokers_that_do_not_answer_are_told_to_a_person_and_not_in_executors(soon: None) -> None:
    settings = ClientSettings("127.0.0.1:1", patience_ms=200, retry_backoff_ms=1)
    told: list[str] = []
    with pytest.raises(FetchFailed):
        ClusterClient(settings, told.append).partition_counts(["t"])
    assert told[-1].startswith("waiting up to 0 s: no broker responds: 127.0.0.1:1:")
    with pytest.raises(FetchFailed):
        ClusterClient(settings).partition_counts(["t"])
