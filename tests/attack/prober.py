"""The honest client: it writes and reads one small record every 10 ms and records its longest wait.

It runs as its own process, so that the attacking process cannot delay it: ``python -m tests.attack.prober PORT TOPIC``.
It prints ``ready`` after its first round trip, continues until a line arrives on stdin, and then prints one JSON
object: ``longest_wait_ms``, ``p99_wait_ms``, ``turns`` and ``errors`` (each error with its count).

A wait lasts from a request to its good response. A broken connection or an error code does not end it: the request is
sent again, as a real client does. If the prober is stopped during a wait, the wait counts up to then.

Its frames are written by hand; only the batch comes from ``storage``.
"""

import contextlib
import gc
import json
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from kafka_zk.storage.records.record_batch import RecordBatchBuilder

PAUSE_S = 0.01
RETRY_PAUSE_S = 0.02
POLL_S = 0.05
PRODUCE, FETCH = 0, 1
_PRODUCE_VERSION, _FETCH_VERSION = 3, 4
_FETCH_HEAD = struct.Struct(">iiiib")  # replica, max wait, min bytes, max bytes, isolation level
_CRC = 17  # the client's part of a batch begins here; the broker sets offset and leader epoch
_FETCHED = struct.Struct(">ihqqii")  # partition, error, high watermark, last stable offset, aborted, records' size


class _Stopped(Exception):
    """The prober was stopped during a wait."""


class _BadAnswer(Exception):
    """The response has an error code, or a record other than the one that was written."""


class Prober:
    """One connection to a broker and one partition; ``run`` until ``stop`` is set."""

    def __init__(self, port: int, topic: str, stop: threading.Event) -> None:
        self._address = ("127.0.0.1", port)
        self._topic = struct.pack(">h", len(topic)) + topic.encode()
        self._stop = stop
        self._socket: socket.socket | None = None
        self._waits_s: list[float] = []
        self._turns = 0
        self._errors: Counter[str] = Counter()
        builder = RecordBatchBuilder()
        builder.append(int(time.time() * 1000), None, b"a small record")
        self._batch = builder.build()

    def run(self, on_ready: Callable[[], None]) -> None:
        with contextlib.suppress(_Stopped):
            self._wait_for(self._produce)
            self._waits_s.clear()  # the first connection and the first write are not measured
            on_ready()
            while not self._stop.is_set():
                offset = self._wait_for(self._produce)
                self._wait_for(partial(self._fetch, offset))
                self._turns += 1
                time.sleep(PAUSE_S)

    def result(self) -> dict[str, object]:
        waits_s = sorted(self._waits_s) or [0.0]
        return {
            "longest_wait_ms": round(waits_s[-1] * 1000, 1),
            "p99_wait_ms": round(waits_s[len(waits_s) * 99 // 100] * 1000, 1),
            "turns": self._turns,
            "errors": dict(self._errors),
        }

    def _wait_for(self, request: Callable[[], int]) -> int:
        started_s = time.monotonic()
        try:
            while True:
                try:
                    return request()
                except (OSError, _BadAnswer) as error:
                    self._errors[str(error)] += 1
                    self._hang_up()
                    time.sleep(RETRY_PAUSE_S)
                    if self._stop.is_set():
                        raise _Stopped from None
        finally:
            self._waits_s.append(time.monotonic() - started_s)

    def _produce(self) -> int:
        """Write the record; returns its offset."""
        body = struct.pack(">hhii", -1, 1, 5000, 1) + self._topic
        body += struct.pack(">iii", 1, 0, len(self._batch)) + self._batch
        answer = self._ask(PRODUCE, _PRODUCE_VERSION, body)
        error, offset = struct.unpack_from(">hq", answer, 4 + len(self._topic) + 8)
        if error:
            raise _BadAnswer(f"Produce: error {error}")
        return int(offset)

    def _fetch(self, offset: int) -> int:
        """Read the record at ``offset``."""
        body = _FETCH_HEAD.pack(-1, 0, 0, 1 << 20, 0) + struct.pack(">i", 1) + self._topic
        body += struct.pack(">iiqi", 1, 0, offset, 1 << 20)
        answer = self._ask(FETCH, _FETCH_VERSION, body)
        position = 4 + 4 + len(self._topic) + 4
        error = _FETCHED.unpack_from(answer, position)[1]
        if error:
            raise _BadAnswer(f"Fetch: error {error}")
        records = answer[position + _FETCHED.size :][: len(self._batch)]  # an attack may have written after our record
        if int.from_bytes(records[:8], "big") != offset or records[_CRC:] != self._batch[_CRC:]:
            raise _BadAnswer("Fetch: not the record that was written")
        return offset

    def _ask(self, api_key: int, version: int, body: bytes) -> bytes:
        """Returns the body of the response. Raises: OSError."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, 1)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(POLL_S)
        header = struct.pack(">hhih", api_key, version, 1, 6) + b"prober"
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (size,) = struct.unpack(">i", self._receive(self._socket, 4))
        return self._receive(self._socket, size)[4:]

    def _receive(self, connected: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = connected.recv(size - len(data))
            except TimeoutError:
                if self._stop.is_set():
                    raise _Stopped from None
                continue
            if not part:
                raise ConnectionResetError("the broker closed the prober's connection")
            data += part
        return data

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def main() -> None:
    gc.disable()  # the prober's own pause must not count against the broker
    stop = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.readline()
        stop.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    prober = Prober(int(sys.argv[1]), sys.argv[2], stop)
    prober.run(lambda: print("ready", flush=True))
    print(json.dumps(prober.result()), flush=True)


if __name__ == "__main__":
    main()
