"""The first ZooKeeper that stops writes an archive of its classes, with which the next one starts."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_zk.embedded.class_archive import (
    ABANDONED_AFTER_S,
    MOST_ARCHIVES,
    archive_to_use_or_write,
    cache_folder,
    existing_archive,
)
from kafka_zk.embedded.java import Java
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kafka-zk"


@pytest.fixture
def java(tmp_path: Path) -> Java:
    path = tmp_path / "java"
    path.touch()
    return Java(path, 17, "PATH")


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    jar = tmp_path / "zookeeper.jar"
    jar.write_bytes(b"jar")
    return [jar]


def written(flags: Sequence[str]) -> Path:
    """The file that the JVM with these flags would write."""
    (flag,) = [flag for flag in flags if flag.startswith("-XX:ArchiveClassesAtExit=")]
    return Path(flag.partition("=")[2])


def test_an_archive_that_was_written_is_used_next_time(cache: Path, java: Java, jars: list[Path]) -> None:
    assert existing_archive(java, jars).java_flags == ()
    archive = archive_to_use_or_write(java, jars)
    written(archive.java_flags).write_bytes(b"classes")
    archive.close(complete=True)
    (made,) = cache.iterdir()
    assert made.read_bytes() == b"classes"
    for later in (archive_to_use_or_write(java, jars), existing_archive(java, jars)):
        assert f"-XX:SharedArchiveFile={made}" in later.java_flags


def test_only_one_server_at_a_time_writes(cache: Path, java: Java, jars: list[Path]) -> None:
    first = archive_to_use_or_write(java, jars)
    assert archive_to_use_or_write(java, jars).java_flags == ()
    first.close(complete=False)  # the server was killed and has not written the archive
    assert list(cache.iterdir()) == []
    third = archive_to_use_or_write(java, jars)
    claim = written(third.java_flags)
    begun_s = claim.stat().st_mtime - ABANDONED_AFTER_S - 1
    os.utime(claim, (begun_s, begun_s))
    assert archive_to_use_or_write(java, jars).java_flags, "a claim of a process whose id was reused"


def test_what_a_killed_process_left_is_removed_by_the_next_one(cache: Path, java: Java, jars: list[Path]) -> None:
    """Files for other jars, whose environment may no longer exist, are also removed. Claims of running processes stay.
    """
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    mine = written(archive_to_use_or_write(java, jars).java_flags)
    left = [mine.with_name(f"{name}.{ended.pid}.part") for name in (mine.name.partition(".")[0], "zookeeper-other")]
    kept = [mine.with_name(f"zookeeper-another.{os.getppid()}.part"), mine.with_name("zookeeper-unnumbered.part")]
    for path in (*left, *kept):
        path.write_bytes(b"the beginning of ")
    mine.unlink()
    assert written(archive_to_use_or_write(java, jars).java_flags) == mine
    assert set(cache.iterdir()) == {mine, *kept}


def test_what_a_killed_server_has_written_is_not_used(cache: Path, java: Java, jars: list[Path]) -> None:
    archive = archive_to_use_or_write(java, jars)
    written(archive.java_flags).write_bytes(b"the beginning of ")
    archive.close(complete=False)
    assert list(cache.iterdir()) == []


def test_only_the_archives_used_last_are_kept(cache: Path, java: Java, jars: list[Path]) -> None:
    """Every new environment has other jars, and an archive takes 20 MB."""
    cache.mkdir(parents=True)
    others = [cache / f"zookeeper-{number}.jsa" for number in range(MOST_ARCHIVES)]
    for seconds, other in enumerate(others):
        other.touch()
        os.utime(other, (seconds, seconds))
    archive = archive_to_use_or_write(java, jars)
    written(archive.java_flags).write_bytes(b"classes")
    archive.close(complete=True)
    assert others[0] not in cache.iterdir() and set(others[1:]) < set(cache.iterdir())
    (made,) = set(cache.iterdir()) - set(others)
    os.utime(made, (0, 0))
    assert archive_to_use_or_write(java, jars).java_flags
    assert made.stat().st_mtime > 0, "the archive is in use"


def test_other_jars_and_another_java_have_other_archives(cache: Path, java: Java, jars: list[Path]) -> None:
    names = [written(archive_to_use_or_write(java, jars).java_flags)]
    jars[0].write_bytes(b"newer jar")
    names.append(written(archive_to_use_or_write(java, jars).java_flags))
    java.path.write_bytes(b"newer java")
    names.append(written(archive_to_use_or_write(java, jars).java_flags))
    assert len(set(names)) == 3


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: Java, jars: list[Path]
) -> None:
    (tmp_path / "file").touch()
    jars.append(Path(os.fsdecode(os.fsencode(tmp_path / "jar-") + b"\xff")))
    jars[-1].touch()
    for unusable in (tmp_path / "file", tmp_path / ("long" * 100), tmp_path / "two:parts"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(unusable))
        assert archive_to_use_or_write(java, jars).java_flags == ()
        assert existing_archive(java, jars).java_flags == ()


def test_an_old_java_and_a_class_path_with_a_wildcard_have_none(cache: Path, java: Java, jars: list[Path]) -> None:
    assert archive_to_use_or_write(java._replace(major_version=11), jars).java_flags == ()
    assert archive_to_use_or_write(java, [jars[0].with_name("*")]).java_flags == ()


def test_a_relative_cache_folder_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "kafka-zk"
    assert cache_folder({"XDG_CACHE_HOME": "here"}) == Path.home() / ".cache" / "kafka-zk"

    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_folder({}) is None


@pytest.mark.integration
def test_a_server_maps_the_archive_of_the_one_before(cache: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        with EmbeddedZooKeeper(tmp_path / name, force_sync=False) as server:
            maps = Path(f"/proc/{server.pid}/maps").read_text()
    (made,) = cache.iterdir()
    assert str(made) in maps
    assert server.process.output().count("cds") == 0
