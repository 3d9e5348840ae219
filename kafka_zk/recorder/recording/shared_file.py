"""One file for a colleague, ``recording.kzr``: a recording, or a part of it, compressed and without secrets.

    bytes     content
    0 – 3     KZR1
    4 – 11    size of the database in bytes, unsigned, big-endian
    12 – 43   SHA-256 of the database
    44 –      the database (SQLite), compressed with zlib
"""

import hashlib
import struct
import zlib
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from kafka_zk.recorder.recording.errors import NoRecording
from kafka_zk.recorder.recording.export import export
from kafka_zk.recorder.recording.recording import Recording

SUFFIX = ".kzr"
MAGIC = b"KZR1"
MOST_BYTES = 8 << 30
"""Maximum size of the unpacked database."""
_HEADER = struct.Struct(">4sQ32s")
_CHUNK_BYTES = 1 << 20
_FOLDER = "kafka-zk-recording-"


def is_shared_file(path: Path) -> bool:
    """Raises: OSError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def save(recording: Recording, path: Path, first: int, last: int) -> None:
    """Write the entries from ``first`` to ``last``, and the znodes before ``first``, without secrets.

    Raises: FileExistsError, OSError, sqlite3.Error.
    """
    with TemporaryDirectory(prefix=_FOLDER) as folder:
        database = Path(folder) / "recording.sqlite"
        for _ in export(recording, database, first, last):
            pass
        pack(database, path)


def open_shared_file(path: Path) -> Recording:
    """Open a shared file to read. It is unpacked to a temporary file, which is deleted when this process ends.

    Raises: NoRecording if the file is cut off, damaged or something else; OSError.
    """
    with TemporaryDirectory(prefix=_FOLDER) as folder:
        database = Path(folder) / "recording.sqlite"
        _unpack(path, database)
        return Recording(database, read_only=True)  # the open file stays readable after its name is deleted


def pack(database: Path, path: Path) -> None:
    """Write an exported database as one file. Raises: FileExistsError, OSError; then it leaves no new file."""
    digest, compressor = hashlib.sha256(), zlib.compressobj(6)
    with database.open("rb") as source, ExitStack() as undo, path.open("xb") as target:
        undo.callback(path.unlink)  # an incomplete file is useless
        target.write(bytes(_HEADER.size))
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            target.write(compressor.compress(chunk))
        target.write(compressor.flush())
        target.seek(0)
        target.write(_HEADER.pack(MAGIC, source.tell(), digest.digest()))
        target.flush()
        undo.pop_all()


def _unpack(path: Path, database: Path) -> None:
    with path.open("rb") as source, database.open("xb") as target:
        header = source.read(_HEADER.size)
        if not header.startswith(MAGIC):
            raise NoRecording(f"{path} is not a recording of kafka-zk web")
        if len(header) < _HEADER.size:
            raise _cut_off(path)
        _, size_bytes, expected = _HEADER.unpack(header)
        if size_bytes > MOST_BYTES:
            raise NoRecording(f"{path} would need {size_bytes} bytes unpacked, which is more than {MOST_BYTES}")
        digest, decompressor = hashlib.sha256(), zlib.decompressobj()
        packed = source.read(_CHUNK_BYTES)
        while packed and not decompressor.eof and target.tell() <= size_bytes:
            try:
                chunk = decompressor.decompress(packed, _CHUNK_BYTES)
            except zlib.error:
                raise _damaged(path) from None
            digest.update(chunk)
            target.write(chunk)
            packed = decompressor.unconsumed_tail or source.read(_CHUNK_BYTES)
        if not decompressor.eof and target.tell() <= size_bytes:
            raise _cut_off(path)
        if target.tell() != size_bytes or digest.digest() != expected:
            raise _damaged(path)


def _cut_off(path: Path) -> NoRecording:
    return NoRecording(f"{path} is cut off: copy it again, or have it saved again")


def _damaged(path: Path) -> NoRecording:
    return NoRecording(f"{path} is damaged: its checksum does not match; copy it again, or have it saved again")
