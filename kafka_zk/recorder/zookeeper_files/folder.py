"""The files of a ZooKeeper server: ``log.<first zxid>`` and ``snapshot.<last zxid>``, both in hexadecimal digits.

Source: FileTxnSnapLog.java, SnapStream.java and Util.java (zookeeper.server.persistence)@3.9.
"""

from pathlib import Path

VERSION_2 = "version-2"


def files_folder(data_dir: Path) -> Path:
    """``version-2`` in a ``dataDir`` or ``dataLogDir``; the folder itself if the files are directly in it."""
    inner = data_dir / VERSION_2
    is_outer = inner.is_dir() or not any(each for kind in ("log", "snapshot") for each in data_dir.glob(f"{kind}.*"))
    return inner if is_outer else data_dir


def zxid_of(file: Path) -> int:
    """The zxid in a file's name; -1 if the name contains no zxid. A snapshot may be compressed (``.gz``)."""
    name = file.name.removesuffix(".gz").partition(".")[2]
    is_hexadecimal = 0 < len(name) <= 16 and all(each in "0123456789abcdefABCDEF" for each in name)
    return int(name, 16) if is_hexadecimal else -1
