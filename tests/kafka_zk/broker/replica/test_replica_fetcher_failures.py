"""What ends or delays a follower's fetching: damaged records, silent leaders, failing disks, our own bugs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_zk.broker.replica.fetch_session_handler import FetchSessionHandler
from kafka_zk.broker.replica.fetcher_state import FetcherState
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition
from kafka_zk.storage.files.errors import TooManyOpenFiles
from kafka_zk.storage.log.log import Log
from tests.kafka_zk.broker.replica.fetched_leader import World, three_batches, world, written

__all__ = ["world"]  # a fixture


def test_a_damaged_batch_is_never_appended(world: World, tmp_path: Path) -> None:
    """Nothing of the response is appended; the follower fetches it again after a pause."""
    data = bytearray(written(tmp_path / "leader", three_batches))
    data[-1] ^= 1
    world.lead()
    world.answer(bytes(data), high_watermark=15)
    assert world.log.log_end_offset == 0
    requests = len(world.leader.requests)
    world.pass_time(0.9)
    assert len(world.leader.requests) == requests
    world.pass_time(0.2)
    assert len(world.leader.requests) == requests + 1


def test_a_leader_that_does_not_answer_is_tried_again(world: World) -> None:
    world.is_reachable = False
    world.lead()
    assert world.leaders == {}
    world.is_reachable = True
    world.pass_time(1.1)
    assert world.leader.wanted[0].fetch_offset == 0
    world.leader.disconnect()
    world.pass_time(1.1)
    assert len(world.leader.requests) == 1  # over a new connection
    assert (world.leader.requests[-1].session_id, world.leader.requests[-1].session_epoch) == (0, 0)


def test_an_old_leader_epoch_is_not_fetched_any_more(world: World) -> None:
    world.lead()
    world.leader.answer(FetchedPartition(0, ErrorCode.FENCED_LEADER_EPOCH))
    world.pass_time(5)
    assert not world.leader.connected_to_broker
    world.lead(leader_epoch=4)
    assert world.leader.wanted[0].current_leader_epoch == 4


def test_records_in_remote_storage_are_not_asked_for_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The leader is a broker of Apache Kafka with a tiered topic: one error for each leader epoch, no retry."""
    world.lead()
    world.leader.answer(FetchedPartition(0, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE))
    requests = len(world.leader.requests)
    world.pass_time(60)
    assert len(world.leader.requests) == requests and not world.leader.connected_to_broker
    (told,) = [record for record in caplog.records if "remote storage" in record.getMessage()]
    assert told.levelname == "ERROR" and "stays out of the ISR" in told.getMessage()
    world.lead(leader_epoch=4)
    assert world.leader.wanted[0].current_leader_epoch == 4


def test_a_disk_that_refuses_takes_its_directory_offline(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Log, *args: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    world.lead()
    monkeypatch.setattr(Log, "append_as_follower", refuse)
    world.answer(written(tmp_path / "leader", three_batches))
    assert [error.errno for error in world.failed] == [28]
    assert not world.leader.connected_to_broker


@pytest.fixture
def err_in(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Deliver a response while these methods have a bug."""
    def mistake(*args: object) -> None:
        raise KeyError("a mistake of ours")

    def err(owner: type, *methods: str) -> None:
        world.lead()
        with monkeypatch.context() as patch:
            for method in methods:
                patch.setattr(owner, method, mistake)
            world.answer()

    return err


def raised(caplog: pytest.LogCaptureFixture) -> list[type[BaseException] | None]:
    """The exceptions that were logged with a traceback."""
    return [record.exc_info[0] for record in caplog.records if record.exc_info]


def test_an_error_of_ours_ends_the_fetching_of_one_partition_only(
    world: World, err_in: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """The error is logged with its traceback, and fetching resumes in the next leader epoch."""
    err_in(FetcherState, "answered")
    assert caplog.text.count("is no longer fetched in this leader epoch") == 1
    assert raised(caplog) == [KeyError]
    assert world.fetchers.failed_count == 1
    world.pass_time(5)
    assert not world.leader.connected_to_broker
    world.lead(leader_epoch=4)
    assert world.leader.wanted[0].current_leader_epoch == 4
    assert world.fetchers.failed_count == 0


def test_an_error_of_the_loop_itself_is_told_and_does_not_end_all_fetching(
    world: World, err_in: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """The partition counts as failed; the fetcher serves a partition in a new leader epoch."""
    err_in(FetchSessionHandler, "take_response", "failed")
    assert "the fetcher of broker 2 has stopped" in caplog.text and "KeyError" in caplog.text
    assert world.fetchers.failed_count == 1
    world.lead(leader_epoch=4)
    assert world.leader.wanted[0].current_leader_epoch == 4


def test_an_unexpected_error_of_a_request_is_told_with_its_traceback(
    world: World, err_in: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """One line without a traceback would look as if the leader were unreachable."""
    err_in(FetchSessionHandler, "take_response")
    assert raised(caplog) == [KeyError]
    world.pass_time(1.1)
    assert world.leader.wanted[0].current_leader_epoch == 3


def test_a_flush_without_a_descriptor_is_made_later(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush that failed because of a bug is repeated, too: the follower never fetches from an offset that is not
    durable."""
    def no_descriptor(self: Log, *args: object) -> None:
        raise TooManyOpenFiles("no descriptor is free")

    world.log.update_config(replace(world.log.config, flush_messages=1))
    world.lead()
    with monkeypatch.context() as patch:
        patch.setattr(Log, "prepare_flush", no_descriptor)
        world.answer(written(tmp_path / "leader", three_batches), high_watermark=10)
    assert world.failed == []
    assert len(world.leader.requests) == 1
    world.pass_time(1.1)
    [(work, done)] = world.in_threads
    done.callback(work())
    assert len(world.leader.requests) == 2 and world.leader.wanted[0].fetch_offset == 15
