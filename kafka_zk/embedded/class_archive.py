"""An archive of ZooKeeper's classes. The JVM maps it into memory instead of reading, verifying and linking classes, so
a start takes two thirds of the time, and the server uses 16 MB less.

A JVM writes the archive when it exits. So the first server that stops on a machine creates the archive, and later
servers start from it. Archives are in the user's cache folder; each combination of Java and jars has its own. Every new
Python environment has its own jars, so only the most recently used archives are kept.
Source: JEP 350.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kafka_zk.embedded.java import Java
from kafka_zk.embedded.java_release import version_in_release_file

OLDEST_JAVA = 13
ABANDONED_AFTER_S = 3600
"""An older claim counts as abandoned, even if a process has its pid, which may be reused or belong to another
machine."""
MOST_ARCHIVES = 5
_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


class ClassArchive:
    """The archive for one Java and set of jars.

    ``java_flags``: arguments with which the JVM uses or writes the archive. ``claim``: the file that this JVM writes,
    which also keeps other JVMs from writing it; None if it writes no archive.
    """

    def __init__(self, path: Path, java_flags: Sequence[str], claim: Path | None = None) -> None:
        self._path = path
        self._claim = claim
        self.java_flags = tuple(java_flags)

    def close(self, *, complete: bool) -> None:
        """Publish the archive that the JVM has written, for later starts. Call this after the JVM has exited.

        ``complete``: False if the JVM was killed, because it may have been writing.
        """
        claim, self._claim = self._claim, None
        if claim is None:
            return
        with contextlib.suppress(OSError):
            if complete and claim.stat().st_size:
                claim.replace(self._path)
                _remove_oldest(self._path.parent)
            else:  # also if the JVM cannot write archives
                claim.unlink()


NO_ARCHIVE = ClassArchive(Path(), ())


def existing_archive(java: Java, jars: Iterable[Path]) -> ClassArchive:
    """The archive for this Java and these jars if it exists, otherwise NO_ARCHIVE."""
    path = _path(java, jars)
    return NO_ARCHIVE if path is None else use_if_there(path)


def use_if_there(path: Path) -> ClassArchive:
    return _in_use(path) if os.path.exists(path) else NO_ARCHIVE  # Path.exists raises in another user's home


def archive_to_use_or_write(java: Java, jars: Iterable[Path]) -> ClassArchive:
    """Like ``existing_archive``, but if there is no archive, the JVM writes one, unless another JVM already does.

    Returns NO_ARCHIVE if the cache is not writable.
    """
    path = _path(java, jars)
    return NO_ARCHIVE if path is None else use_or_write(path)


def use_or_write(path: Path) -> ClassArchive:
    """The archive at this path. All JVMs that use the path must have the same class path."""
    if os.path.exists(path):
        return _in_use(path)
    claim = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path.parent)
        if any(path.parent.glob(f"{path.stem}.*part")):
            return NO_ARCHIVE
        claim.touch(exist_ok=False)
    except OSError:
        return NO_ARCHIVE
    return ClassArchive(path, (f"-XX:ArchiveClassesAtExit={claim}", *_QUIET), claim)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """``$XDG_CACHE_HOME/kafka-zk``, by default ``~/.cache/kafka-zk``; None for a user without a home directory.

    Source: XDG Base Directory Specification: a relative path is ignored.
    """
    given = Path(environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "kafka-zk"
    try:
        return Path.home() / ".cache" / "kafka-zk"
    except RuntimeError:
        return None


def _in_use(path: Path) -> ClassArchive:
    with contextlib.suppress(OSError):
        os.utime(path)
    return ClassArchive(path, (f"-XX:SharedArchiveFile={path}", *_QUIET))


def _remove_abandoned(folder: Path) -> None:
    """Remove the claims of killed processes; such a file may be as large as an archive. Raises: OSError."""
    now_s = time.clock_gettime(time.CLOCK_REALTIME)  # time.time may be frozen in a user's test
    for claim in folder.glob("*.part"):
        if not _is_running(claim.stem.rpartition(".")[2]) or now_s - claim.stat().st_mtime > ABANDONED_AFTER_S:
            claim.unlink(missing_ok=True)


def _is_running(process_id: str) -> bool:
    """True if the process runs, or if that cannot be found out."""
    try:
        os.kill(int(process_id), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OverflowError, PermissionError):  # not a pid, or another user's process
        return True
    return True


def _remove_oldest(folder: Path) -> None:
    """Keep the archives that were used last. A running JVM keeps the removed file open.

    Raises: OSError.
    """
    archives = sorted(folder.glob("zookeeper-*.jsa"), key=lambda path: path.stat().st_mtime_ns)
    for path in archives[:-MOST_ARCHIVES]:
        path.unlink()


def _path(java: Java, jars: Iterable[Path]) -> Path | None:
    """The path of the archive; None if this Java cannot write archives, or if there is no cache folder."""
    folder = cache_folder()
    if folder is None or java.major_version < OLDEST_JAVA or os.pathsep in str(folder):  # the JVM would see two files
        return None
    try:
        parts = [str(version_in_release_file(java.path)), *map(_identity, (java.path.resolve(), *jars))]
    except OSError:  # a class path with a wildcard
        return None
    digest = hashlib.sha256(os.fsencode("\n".join(parts))).hexdigest()[:16]
    return folder / f"zookeeper-{digest}.jsa"


def _identity(file: Path) -> str:
    found = file.stat()
    return f"{file} {found.st_size} {found.st_mtime_ns}"
