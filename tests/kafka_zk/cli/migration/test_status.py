"""``kafka-zk migration status --watch``: when the metadata log is read again, and the output after a temporary failure.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafka_zk.cli.migration import gathering, status
from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.migration.facts import ClusterFacts, Fact, MigrationState, Quorum, Unknown
from kafka_zk.migration.metadata.image import MetadataImage
from kafka_zk.migration.metadata.replay import MetadataLog
from kafka_zk.registry.client.errors import SessionLost
from tests.kafka_zk.migration import recorded
from tests.kafka_zk.migration.recorded import controllers, dual_write

MIGRATION, POST_MIGRATION = MigrationState.MIGRATION, MigrationState.POST_MIGRATION
READY_AND_NOT = controllers(recorded.READY, recorded.NOT_READY)


def log(state: MigrationState) -> MetadataLog:
    return MetadataLog(MetadataImage(), state, 9, "here")


class Cluster:
    """A cluster: each look returns the next of ``looks``; each read of the log returns the next of ``logs``, the last
    one repeatedly.
    """

    def __init__(self, looks: list[ClusterFacts | Exception], *logs: Fact[MetadataLog]) -> None:
        self.looks = iter(looks)
        self.logs = list(logs)
        self.log_reads = 0

    def gather(self, *_: Any) -> ClusterFacts:
        found = next(self.looks)
        if isinstance(found, Exception):
            raise found
        return found

    def read_log(self, *_: Any) -> Fact[MetadataLog]:
        self.log_reads += 1
        return self.logs.pop(0) if len(self.logs) > 1 else self.logs[0]


Watch = Callable[..., Result]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Run the command until no looks are left."""

    @contextmanager
    def opened(_: gathering.Sources) -> Iterator[None]:
        yield None

    def run(cluster: Cluster, looks: int, *options: str) -> Result:
        left = iter(range(looks - 1))

        def sleep(_: float) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

        monkeypatch.setattr(gathering.Sources, "opened", opened)
        monkeypatch.setattr(status, "gather", cluster.gather)
        monkeypatch.setattr(status, "read_metadata_log", cluster.read_log)
        monkeypatch.setattr(time, "sleep", sleep)
        return CliRunner().invoke(status.status, ["--zookeeper", "zk:2181", *options])

    return run


def test_a_confirmed_log_is_read_once(watch: Watch) -> None:
    cluster = Cluster([dual_write()] * 3, log(MIGRATION))
    done = watch(cluster, 3, "--watch")
    assert cluster.log_reads == 1 and done.stdout.count("Phase: dual write") == 1


@pytest.mark.parametrize(
    "later",
    [dual_write({"is_written": False}), dual_write(controllers=READY_AND_NOT, quorum=Quorum(frozenset({1, 2, 3})))],
    ids=["/migration does not change", "a controller was restarted"],
)
def test_what_may_come_from_the_end_has_the_log_read_again(watch: Watch, later: ClusterFacts) -> None:
    done = watch(Cluster([dual_write(), later], log(MIGRATION), log(POST_MIGRATION)), 2, "--watch")
    assert "Phase: finalised (the metadata log has the state POST_MIGRATION)" in done.stdout
    assert done.stdout.endswith("Safe to roll back: no: changes no longer reach ZooKeeper\n")


@pytest.mark.parametrize("error", [SessionLost("the session is lost"), KafkaTimeoutError("no result after 60 s")])
def test_a_hiccup_is_shown_and_the_watch_goes_on(watch: Watch, error: Exception) -> None:
    done = watch(Cluster([dual_write(), error, dual_write()], log(MIGRATION)), 3, "--watch")
    phases = [line for line in done.stdout.splitlines() if line.startswith("Phase")]
    assert [line.split(" (")[0] for line in phases] == ["Phase: dual write", "Phase: unknown", "Phase: dual write"]
    assert f"Safe to continue: unknown: {error}" in done.stdout


def test_a_hiccup_ends_a_single_look(watch: Watch) -> None:
    done = watch(Cluster([SessionLost("the session is lost")], log(MIGRATION)), 1)
    assert done.exit_code == 1 and isinstance(done.exception, SessionLost)


def test_a_slow_log_does_not_confirm(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: Any) -> Any:
        raise KafkaTimeoutError("no result after 60 s")

    monkeypatch.setattr(gathering, "_collected", slow)
    found = gathering.read_metadata_log(gathering.Sources(None, "b:9092", (), ()), None)
    assert isinstance(found, Unknown) and "could not be fetched within 60 s" in found.reason
