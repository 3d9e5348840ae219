"""Two helper processes for the large batches of all connections.

One helper works for producers, the other for readers (lookups by timestamp, conversions for old consumers), so readers
cannot delay producers. A helper starts at its first job, and runs one job at a time, in order. It ends with the broker,
or after IDLE_S without a job. If a helper dies, the current request fails with a retriable error.
"""

from collections import deque
from pickle import PickleBuffer
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Clock, Timers
from kafka_zk.base.threads import RunInThread
from kafka_zk.base.turns import TURN_COST, ClientWait, Turns
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.files.errors import UnpacksTooBig
from kafka_zk.storage.files.helper_process import Helper
from kafka_zk.storage.log.batch_work import AT_ONCE_BYTES, AT_ONCE_RECORDS, BatchWork, ConformWork, FileWork
from kafka_zk.storage.records.log_validator import NotConformed, check_at_once, conform, needs_conform
from kafka_zk.storage.records.record_batch import Buffer
from kafka_zk.storage.records.record_stream import check_count
from kafka_zk.storage.segments.segment import Segment

_log = Logger()

MEMORY_LIMIT_BYTES = 1 << 30
"""A helper's address space; a zstd window alone may take 128 MB."""
NICENESS = 5
CHECKED_RECORDS = 8_000
CHECKED_BYTES = 1 << 20
"""Maximum uncompressed size of batches that the reactor thread checks; a check takes up to 3 ms (records of 130
bytes)."""
IDLE_S = 30.0
LONGEST_WORK_S = 120.0


class _Job:
    """A job, which keeps its segment open until the job is done or dropped."""

    def __init__(self, work: BatchWork | FileWork, result: "Deferred[Any]", segment: Segment | None) -> None:
        self.work = work
        self.result = result
        self._segment = segment
        self.descriptor = -1
        if segment is not None:
            segment.pin_for_reader()
            self.descriptor = segment.fileno()

    def end(self, content: object) -> None:
        if self._segment is not None:
            self._segment.unpin()
        if self.result.called:  # the client is gone
            return
        if isinstance(content, Exception):
            self.result.errback(content)
        else:
            self.result.callback(content)


class _Lane:
    def __init__(self, clock: Timers, run_in_thread: RunInThread) -> None:
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._jobs: deque[_Job] = deque()
        self._is_busy = False
        self._is_closed = False
        self._helper: Helper | None = None
        self._idle_call: Any = None

    def submit(self, job: _Job) -> None:
        if self._is_closed:
            job.end(_lost())
        else:
            self._jobs.append(job)
            self._next()

    def _next(self) -> None:
        if self._is_busy or self._is_closed:
            return
        while self._jobs:
            job = self._jobs.popleft()
            if job.result.called:  # the client is gone
                job.end(None)
                continue
            self._is_busy = True
            ensureDeferred(self._do(job))
            return
        if self._helper is not None:
            self._idle_call = self._clock.callLater(IDLE_S, self._rest)

    async def _do(self, job: _Job) -> None:
        if self._idle_call is not None:
            self._idle_call.cancel()
            self._idle_call = None
        answer: list[object] = []
        try:
            await self._run_in_thread(lambda: answer.append(self._exchange(job)))
        finally:
            self._is_busy = False
            job.end(answer[0] if answer else _lost())
            self._next()

    def _exchange(self, job: _Job) -> object:
        """Run a job on a worker thread. Returns the result or the exception."""
        try:
            if self._helper is None or not self._helper.is_alive:
                self._end_helper()
                self._helper = Helper(MEMORY_LIMIT_BYTES, NICENESS)
            if self._is_closed:
                raise ConnectionAbortedError("the broker stops")
            self._helper.begin(job.work, job.descriptor)
            if not self._helper.connection.poll(LONGEST_WORK_S):
                raise TimeoutError(f"no result after {LONGEST_WORK_S} s")
            _, content = self._helper.receive()
        except (EOFError, OSError) as error:  # also raised if no process can be started
            if not self._is_closed:
                _log.warn(
                    "the helper process for {work} ended: {error}",
                    work=type(job.work).__name__,
                    error=error or "it died",
                )
            self._end_helper()
            return _lost()
        return content

    def _end_helper(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.end()

    def _rest(self) -> None:
        self._idle_call = None
        self._end_helper()

    def close(self) -> None:
        """End the helper. Waiting jobs fail with a retriable error."""
        self._is_closed = True
        if self._idle_call is not None:
            self._idle_call.cancel()
            self._idle_call = None
        if not self._is_busy:
            self._end_helper()
        elif self._helper is not None:
            self._helper.process.kill()  # this wakes the thread that waits for it
        while self._jobs:
            self._jobs.popleft().end(_lost())


def _lost() -> ApiError:
    return ApiError(ErrorCode.REQUEST_TIMED_OUT, "The process that worked on the batch ended; try again.")


class BatchHelpers:
    """The two helpers of a broker."""

    def __init__(self, clock: Clock, run_in_thread: RunInThread) -> None:
        self._clock = clock
        self._for_producers = _Lane(clock, run_in_thread)
        self._for_readers = _Lane(clock, run_in_thread)

    async def conform(self, turns: Turns, batch: memoryview, needed: NotConformed) -> Buffer:
        """``log_validator.conform``, in a helper if the batch may be large.

        Raises: ApiError (REQUEST_TIMED_OUT), StorageError.
        """
        header, config = needed.header, needed.config
        now_ms = self._clock.wall_ms()
        check_count(header)
        if header.record_count <= CHECKED_RECORDS and not needs_conform(header, config):
            await turns.spend(TURN_COST)
            try:
                check_at_once(batch, header, config, max_records=CHECKED_RECORDS, max_uncompressed_bytes=CHECKED_BYTES)
                return batch
            except NotConformed:  # above the limits, or must be rebuilt
                pass
        if header.record_count <= AT_ONCE_RECORDS and len(batch) <= AT_ONCE_BYTES:
            await turns.spend(AT_ONCE_BYTES // 2)
            try:
                return conform(batch, header, config, now_ms, max_uncompressed_bytes=AT_ONCE_BYTES)
            except UnpacksTooBig:
                pass  # too large for the reactor thread
        conformed: bytes | None = await self.run(ConformWork(PickleBuffer(batch), config, now_ms))
        return batch if conformed is None else bytearray(conformed)

    def run(self, work: BatchWork) -> "Deferred[Any]":
        """Run a producer's job, even if the client disconnects.

        Raises, when awaited: ApiError (REQUEST_TIMED_OUT), StorageError.
        """
        result: Deferred[Any] = Deferred()
        self._for_producers.submit(_Job(work, result, None))
        return result

    def run_on(self, segment: Segment, work: FileWork) -> ClientWait[Any]:
        """Run a reader's job. It is skipped if the client disconnects before it starts.

        Raises: OSError if the segment cannot be opened, TooManyOpenFiles; when awaited: OSError, ApiError
            (REQUEST_TIMED_OUT), StorageError, ClientGone.
        """
        result: ClientWait[Any] = ClientWait()
        self._for_readers.submit(_Job(work, result, segment))
        return result

    def close(self) -> None:
        """End the helpers. Waiting requests fail."""
        self._for_producers.close()
        self._for_readers.close()
