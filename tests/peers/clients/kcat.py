"""kcat, the command-line client on librdkafka.

As a producer, it takes one record per line, with the same headers for all. As a consumer, its format string shows the
lengths of key and value, so any bytes are read exactly; headers are text.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from tests.peers.clients.base import TIMEOUT_S, ClientFailed, Read, Write
from tests.peers.records import COMMON_HEADERS, Record, common_headers_lines, without_headers

_KEY_DELIMITER = "\x1f"
_END = b"\x1e--end of record--\x1e"


def _run(arguments: Sequence[str], stdin: bytes = b"") -> bytes:
    try:
        done = subprocess.run(["kcat", *arguments], input=stdin, capture_output=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        raise ClientFailed(f"kcat still runs after {TIMEOUT_S:g} s: {late.stderr!r}") from late
    if done.returncode != 0:
        raise ClientFailed(f"kcat ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def listing(bootstrap: str, topic: str) -> bytes:
    """The JSON that `kcat -L` prints about one topic."""
    return _run(["-b", bootstrap, "-L", "-J", "-t", topic])


class KcatProducer:
    """`kcat -P -K`: an empty key or value is null (-Z)."""

    name = "kcat"
    dataset = staticmethod(common_headers_lines)

    def __init__(self) -> None:
        self._options: list[str] = [
            part for name, value in COMMON_HEADERS for part in ("-H", f"{name}={(value or b'').decode()}")
        ]

    def write(self, what: Write) -> None:
        text = b"".join(
            (record.key or b"") + _KEY_DELIMITER.encode() + (record.value or b"") + b"\n" for record in what.records
        )
        target = ["-b", what.bootstrap, "-t", what.topic, "-p", str(what.partition)]
        _run(["-P", *target, "-K", _KEY_DELIMITER, "-Z", "-z", what.compression, *self._options], text)


#: librdkafka then speaks to a broker of 0.9: Produce 1 and Fetch 1, magic 0.
_AS_TO_0_9 = ["-X", "api.version.request=false", "-X", "broker.version.fallback=0.9.0"]


def lines_of_magic_0() -> list[Record]:
    """The records without headers; modern readers see the timestamp -1."""
    return [record._replace(timestamp_ms=-1) for record in without_headers(common_headers_lines())]


class OldKcatProducer(KcatProducer):
    """kcat, configured for a broker of 0.9."""

    name = "kcat-as-0.9.0"
    dataset = staticmethod(lines_of_magic_0)

    def __init__(self) -> None:
        self._options = _AS_TO_0_9


class KcatConsumer:
    """`kcat -C -o OFFSET -c COUNT -f FORMAT`."""

    name = "kcat"

    def __init__(self) -> None:
        self._options: list[str] = []

    def read(self, what: Read) -> list[Record]:
        shown = f"%o %T %K %S %k%s%h{_END.decode()}"
        target = ["-b", what.bootstrap, "-t", what.topic, "-p", str(what.partition)]
        output = _run(
            [
                "-C",
                "-q",
                *target,
                "-o",
                str(what.offset),
                "-c",
                str(what.count),
                "-f",
                shown,
                "-X",
                "check.crcs=true",
                *self._options,
            ]
        )
        return list(self._parse(output))

    @staticmethod
    def _parse(output: bytes) -> list[Record]:
        records = []
        position = 0
        while position < len(output):
            offset, timestamp_ms, key_size, value_size, rest = output[position : position + 100].split(b" ", 4)
            position += len(b" ".join((offset, timestamp_ms, key_size, value_size))) + 1
            key, position = _field(output, position, int(key_size))
            value, position = _field(output, position, int(value_size))
            end = output.index(_END, position)
            shown: tuple[tuple[str, bytes | None], ...] = (("shown", output[position:end]),)
            records.append(Record(key, value, shown, int(timestamp_ms), int(offset)))
            position = end + len(_END)
            del rest
        return records

    def view(self, record: Record) -> Record:
        """Headers as kcat shows them: name=value up to the first NUL byte, joined by commas, NULL for null."""

        def text(value: bytes | None) -> bytes:
            return b"NULL" if value is None else value.partition(b"\0")[0]

        shown = b",".join(name.encode() + b"=" + text(value) for name, value in record.headers)
        return record._replace(headers=(("shown", shown),))


class OldKcatConsumer(KcatConsumer):
    """kcat, configured for a broker of 0.9."""

    name = "kcat-as-0.9.0"

    def __init__(self) -> None:
        self._options = _AS_TO_0_9

    def view(self, record: Record) -> Record:
        """No headers, and kcat shows 0 where a message has no timestamp."""
        return super().view(record._replace(headers=(), timestamp_ms=0))


def _field(output: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    """A key or value of `size` bytes at `position` (size -1: null), and the position after it."""
    return (None, position) if size < 0 else (output[position : position + size], position + size)
