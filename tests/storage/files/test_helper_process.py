"""A helper process and its work items: results, errors, open files and the end of the helper. The caller notices a
crash."""

import errno
import io
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from pickle import PickleBuffer
from typing import Any

import pytest

import kafka_zk
from kafka_zk.base.operating_system.limits import file_size_limit, limit_file_size
from kafka_zk.base.types import TimestampOffset
from kafka_zk.storage.files import helper_process
from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord
from kafka_zk.storage.files.helper_process import DONE, FAILED, Helper
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.batch_work import ConformWork, DownConvertWork, UpConvertWork
from kafka_zk.storage.records.conversion import up_convert
from kafka_zk.storage.records.legacy_message_set import LegacyMessage, write_message_set
from kafka_zk.storage.records.record_batch import MAX_UNCOMPRESSED_BYTES
from kafka_zk.storage.segments.timestamp_search import SearchWork
from tests.storage.done_here import down_convert
from tests.storage.files.write_work import WriteWork
from tests.storage.helpers import T0, append, batch, new_log

DEADLINE_S = 30


@pytest.fixture
def helper() -> Iterator[Helper]:
    made = Helper(memory_limit_bytes=1 << 30, niceness=1)
    yield made
    made.end()


def done(helper: Helper, work: object, descriptor: int = -1) -> Any:
    helper.begin(work, descriptor)
    kind, content = helper.receive()
    assert kind == DONE
    return content


def test_works_on_bytes_give_what_they_give_here(helper: Helper) -> None:
    """The results are the same for large batches, too. None stands for the batch that was sent."""
    sent = batch(3, value=os.urandom(500_000))
    view = memoryview(b"frame" + sent)[5:]
    config = LogConfig(compression_type="gzip", max_message_bytes=10_000_000)
    assert done(helper, ConformWork(PickleBuffer(view), config, T0)) == batch(
        3, value=bytes(sent[-500_001:-1]), compression="gzip"
    )
    assert done(helper, ConformWork(PickleBuffer(sent), LogConfig(compression_type="uncompressed"), T0)) is None
    messages = write_message_set([LegacyMessage(0, 1, T0, False, b"k", b"v")] * 3, 1)
    assert done(helper, UpConvertWork(PickleBuffer(messages + messages[:20]), None)) == up_convert(messages)
    assert done(helper, UpConvertWork(PickleBuffer(messages[:20]), None)) == b""


def test_works_on_a_file_read_it_by_its_descriptor(helper: Helper, tmp_path: Path) -> None:
    """The file may already be unlinked."""
    log = new_log(tmp_path)
    data = batch(3, timestamps=[T0, T0 + 5, T0 + 9])
    append(log, data)
    segment = log.segments.active
    with open(segment.path, "rb") as file:
        os.unlink(segment.path)
        found = done(helper, SearchWork(0, len(data), T0 + 5, 0), file.fileno())
        assert found == TimestampOffset(T0 + 5, 1, 0)
        assert done(helper, DownConvertWork(0, len(data), 1, 0), file.fileno()) == down_convert(bytes(data), 1)
        helper.begin(DownConvertWork(0, len(data) + 1, 1, 0), file.fileno())
        kind, error = helper.receive()
    assert kind == FAILED and isinstance(error, CorruptRecord)


def test_what_a_work_raises_comes_back(helper: Helper, tmp_path: Path) -> None:
    """Errors in a batch and errors of the disk are returned, and the helper continues."""
    helper.begin(UpConvertWork(PickleBuffer(bytes(40)), None))
    kind, error = helper.receive()
    assert kind == FAILED and isinstance(error, CorruptRecord)
    with open(tmp_path / "f", "wb") as file:
        helper.begin(SearchWork(0, 100, 0, 0), file.fileno())
        kind, error = helper.receive()
    assert kind == FAILED and isinstance(error, OSError)
    messages = write_message_set([LegacyMessage(0, 1, T0, False, b"k", b"v")], 1)
    assert done(helper, UpConvertWork(PickleBuffer(messages), None)) == up_convert(messages)


def test_a_helper_has_a_bound_on_its_memory() -> None:
    """A work item that needs more memory fails, and the next one succeeds."""
    small = Helper(memory_limit_bytes=180 * 1024 * 1024)
    try:
        sent = batch(1, value=bytes(MAX_UNCOMPRESSED_BYTES - 1000), compression="gzip")
        small.begin(ConformWork(PickleBuffer(sent), LogConfig(compression_type="lz4"), T0))
        kind, error = small.receive()
        assert kind == FAILED and isinstance(error, InvalidRecord)
        assert done(small, ConformWork(PickleBuffer(batch(2)), LogConfig(compression_type="uncompressed"), T0)) is None
    finally:
        small.end()


def test_each_work_has_the_limit_of_file_sizes_that_the_broker_has_now(tmp_path: Path) -> None:
    """The limit is the current one even if the helper was started while a fault that fills the disk had lowered it."""
    limit_bytes, work = file_size_limit(), WriteWork(tmp_path / "file", 2_000_000)
    limit_file_size(1_000_000)
    try:
        helper = Helper()
        helper.begin(work)
        kind, error = helper.receive()
    finally:
        limit_file_size(limit_bytes)
    assert kind == FAILED and isinstance(error, OSError) and error.errno == errno.EFBIG
    assert done(helper, work) == 2_000_000
    helper.end()


def test_a_helper_ends_with_its_broker() -> None:
    """The socket between them is closed even if the broker was killed."""
    helper = Helper()
    helper.connection.close()
    assert helper.process.wait(DEADLINE_S) == 0


def test_the_end_of_a_helper_is_noticed() -> None:
    helper = Helper()
    helper.process.kill()
    helper.process.wait()
    assert not helper.is_alive
    with pytest.raises((EOFError, ConnectionError)):
        helper.begin(SearchWork(0, 0, 0, 0))
        helper.receive()
    helper.end()


def test_a_failed_send_leaves_no_view_of_a_bytesio_behind(helper: Helper) -> None:
    """CPython 3.12.0 and 3.12.1 crash when they collect a cycle that contains such a view, for example the cycle of
    this error and its traceback. ``v = io.BytesIO(b"x").getbuffer(); c = [v]; c.append(c); del v, c; gc.collect()`` is
    enough.
    """
    bytesio_buffer = type(io.BytesIO(b"x").getbuffer().obj)
    helper.process.kill()
    helper.process.wait()
    with pytest.raises(ConnectionError) as lost:
        for _ in range(100):
            helper.begin(PickleBuffer(bytes(100_000)))
    values = [value for frame, _ in traceback.walk_tb(lost.tb) for value in frame.f_locals.values()]
    assert "helper_process.py" in str(lost.traceback) and len(values) > 5
    assert [value for value in values if isinstance(value, memoryview) and type(value.obj) is bytesio_buffer] == []


def test_a_helper_imports_the_code_of_its_parent() -> None:
    """The helper does not import another checkout that is installed."""
    assert Path(helper_process._IMPORT_ROOT) == Path(kafka_zk.__file__).parents[1]
