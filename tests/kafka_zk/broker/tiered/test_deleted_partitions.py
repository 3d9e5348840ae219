"""Nothing of a deleted topic stays in remote storage, whatever happens during the deletion."""

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.broker.tiered.deleted_partitions import FILE, DeletedPartitions
from kafka_zk.protocol import uuids
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.znodes.topics import TopicAssignment
from tests.kafka_zk.broker.tiered.test_remote_log_manager import failing
from tests.kafka_zk.broker.tiered.tiered_broker import T, Threads, TieredBroker


def copied(folder: Path) -> TieredBroker:
    broker = TieredBroker(folder)
    broker.fill(7)
    broker.run()
    assert broker.objects() == [0, 2, 4]
    return broker


def noted(folder: Path) -> list[str]:
    return (folder / "logs" / FILE).read_text().splitlines()[2:]


def test_the_objects_of_a_deleted_topic_are_deleted(tmp_path: Path) -> None:
    """The last round finds no segments and forgets the partition."""
    broker = copied(tmp_path)
    assert broker.delete_topic() == ErrorCode.NONE
    assert noted(tmp_path) == [f"t 0 {uuids.to_text(broker.topic_id)}"]
    assert broker.objects() == [0, 2, 4]
    broker.run()
    assert (broker.objects(), broker.objects(".snapshot"), broker.remote.segments) == ([], [], {})
    broker.run()
    assert (noted(tmp_path), broker.deleted.pending) == ([], [])


def test_a_kill_only_delays_the_deletion(tmp_path: Path) -> None:
    broker = copied(tmp_path)
    broker.delete_topic()
    broker.start(seed=2)
    broker.run()
    assert broker.objects() == []


def test_a_store_that_is_away_only_delays_the_deletion(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = TieredBroker(tmp_path)
    storage = failing(tmp_path, broker, "delete")
    broker.fill(7)
    broker.run()
    broker.delete_topic()
    for _ in range(3):
        broker.run()
    assert len(noted(tmp_path)) == 1
    (told,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert told.getMessage() == "remote storage of t-0: the store refuses; retrying"
    storage.failing.clear()
    broker.run()
    broker.run()
    assert (broker.objects(), noted(tmp_path)) == ([], [])


@pytest.mark.parametrize("has_id", [True, False])
def test_nothing_is_deleted_while_the_topic_exists(tmp_path: Path, has_id: bool) -> None:
    """A controller with delete.topic.enable=false abandons a deletion, and another replica still has the topic."""
    broker = copied(tmp_path)
    topic_id = uuids.to_text(broker.topic_id) if has_id else None
    broker.harness.topics.assigned["t"] = TopicAssignment({0: [0]}, topic_id)
    broker.delete_topic()
    broker.run()
    assert broker.objects() == [0, 2, 4]
    broker.harness.topics.assigned["t"] = TopicAssignment({0: [0]}, uuids.to_text(uuids.random_topic_id()))
    broker.run()
    assert broker.objects() == []


def test_nothing_is_deleted_without_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = copied(tmp_path)
    broker.delete_topic()

    async def assignments(names: Any) -> Any:
        raise RegistryError("the session is lost")

    monkeypatch.setattr(broker.harness.topics, "assignments", assignments)
    for _ in range(3):
        broker.run()
    assert broker.objects() == [0, 2, 4]
    (told,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert told.getMessage() == (
        "remote segments of deleted topics could not be deleted, trying again later: the session is lost"
    )


def test_zookeeper_is_asked_one_question_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = copied(tmp_path)
    broker.delete_topic()
    asked: list[Deferred[Any]] = []

    def assignments(names: Any) -> Any:
        asked.append(Deferred())
        return asked[-1]

    monkeypatch.setattr(broker.harness.topics, "assignments", assignments)
    for _ in range(3):
        broker.run()
    assert len(asked) == 1
    asked[0].callback({})
    broker.run()
    assert (broker.objects(), len(asked)) == ([], 2)


def test_a_directory_that_is_closed_is_not_written(tmp_path: Path) -> None:
    """Another process may own the directory. The deletion is repeated after the next start."""
    broker = copied(tmp_path)
    broker.delete_topic()
    broker.replicas.logs.shutdown()
    ensureDeferred(broker.deleted.forget(broker.tp))
    assert noted(tmp_path) == [f"t 0 {uuids.to_text(broker.topic_id)}"]


def test_partitions_that_wait_share_a_write(tmp_path: Path) -> None:
    """A topic may have thousands of partitions. A failed write is repeated for the calls that wait."""
    broker = copied(tmp_path)
    threads = Threads()
    broker.deleted = deleted = DeletedPartitions(broker.replicas.logs, broker.harness.topics, threads)
    broker.harness.services.deleted_partitions = deleted
    broker.delete_topic()
    for partition in range(1, 9):
        deleted._of(tmp_path / "logs").add(broker.tp._replace(partition=partition))
    threads.holds = True
    done = [ensureDeferred(deleted.forget(tp)) for tp in deleted.pending[1:]]
    threads.release()
    assert len(threads.held) == 1
    threads.release()
    assert all(each.called for each in done) and not threads.held
    assert noted(tmp_path) == [f"t 0 {uuids.to_text(broker.topic_id)}"]


def test_a_copy_in_progress_is_deleted_too(tmp_path: Path) -> None:
    """The copy ends first. Otherwise, its metadata would be written after the deletion."""
    broker = TieredBroker(tmp_path)
    broker.fill(3)
    broker.threads.holds = True
    broker.run()
    broker.delete_topic()
    broker.threads.holds = False
    broker.run()
    assert len(broker.remote.segments) == 1
    broker.threads.release()
    broker.run()
    assert (broker.objects(), broker.remote.segments) == ([], {})


def test_a_replica_that_moves_away_deletes_nothing(tmp_path: Path) -> None:
    """Only the leader epoch -2 means that the topic is deleted."""
    broker = copied(tmp_path)
    assert broker.delete_topic(leader_epoch=5) == ErrorCode.NONE
    assert broker.replicas.logs.get(T) is None
    for _ in range(2):
        broker.run()
    assert broker.objects() == [0, 2, 4]


@pytest.mark.parametrize("content", ["0\n1\nt 0 no-id\n", "0\n2\nt 0\n", "\udcff"])
def test_a_damaged_file_is_reported_and_kept(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = copied(tmp_path)
    (tmp_path / "logs" / FILE).write_bytes(content.encode(errors="surrogateescape"))
    broker.start(seed=2)
    assert broker.deleted.pending == []
    (told,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert f"{FILE} is damaged (" in told.getMessage()
    assert len(list((tmp_path / "logs").glob(f"{FILE}?*"))) == 1
