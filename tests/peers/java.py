"""Running Java programs of a Kafka version: tools in a JVM of their own, and our few driver classes.

`jvm_flags` of the broker are in `apache_kafka`; tools get Kafka's own default heap (kafka-run-class.sh) and flags
that make a short-lived JVM start fast.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka_zk.embedded.class_archive import use_if_there, use_or_write
from kafka_zk.embedded.process import tied
from tests.locks import alone
from tests.peers import jars

SOURCES = Path(__file__).resolve().parent / "java"
_SHORT_LIVED = ["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
_TOOL_TIMEOUT_S = 120


class JavaFailed(Exception):
    """A tool or the compiler failed or took too long; contains its output."""


@dataclass(frozen=True)
class ToolRun:
    """The output of a tool."""

    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout.decode()


def tool_command(version: str, main_class: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command line of a short-lived tool of one Kafka version. The tool uses the archive of classes, if any."""
    return _tool_command(version, main_class, arguments, use_if_there(archive(version)).java_flags)


def _tool_command(version: str, main_class: str, arguments: Sequence[str], archive_flags: Sequence[str]) -> list[str]:
    flags = [*_SHORT_LIVED, *archive_flags, *_log_flags()]
    return ["java", *flags, "-cp", jars.class_path(version), main_class, *arguments]


def archive(version: str, program: str = "tool") -> Path:
    """The path of the archive of the classes that one kind of program loads from a version, for this Java.

    Loading classes takes half of a tool's CPU.
    """
    java = Path(shutil.which("java") or "java").resolve()
    made = [file.stat().st_mtime_ns for file in (java, jars.jars(version)) if file.exists()]
    stamp = hashlib.sha256(f"{java} {made}".encode()).hexdigest()[:16]
    return jars.CACHE / "archives" / f"{version}-{program}-{stamp}.jsa"


def run_tool(
    version: str, main_class: str, arguments: Sequence[str], *, stdin: bytes = b"", timeout_s: float = _TOOL_TIMEOUT_S
) -> ToolRun:
    """Run a command-line tool to its end. The first tool of a version writes the archive of its classes.

    Raises: JavaFailed with the whole output if it ends with a code other than 0 or runs too long.
    """
    classes = use_or_write(archive(version))
    ended_well = False
    try:
        command = _tool_command(version, main_class, arguments, classes.java_flags)
        ran = run_to_its_end(command, stdin=stdin, timeout_s=timeout_s)
        ended_well = True
        return ran
    finally:
        classes.close(complete=ended_well)


def run_to_its_end(command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = _TOOL_TIMEOUT_S) -> ToolRun:
    """Run a command line of ``tool_command`` or ``driver_command``. Raises: JavaFailed, as ``run_tool``."""
    try:
        done = subprocess.run(tied(command), input=stdin, capture_output=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"") + (late.stderr or b"")
        raise JavaFailed(f"{_short(command)} still runs after {timeout_s:g} s:\n{_tail(output)}") from late
    if done.returncode != 0:
        raise JavaFailed(f"{_short(command)} ended with {done.returncode}:\n{_tail(done.stdout + done.stderr)}")
    return ToolRun(done.stdout, done.stderr.decode(errors="replace"))


def compiled(version: str) -> Path:
    """A folder with our classes compiled against one Kafka version; compiled again when a source changes.

    tests/peers/java for today's versions, tests/peers/java/legacy for those from before 0.11,
    tests/peers/java/applications for those that need Kafka Streams, and tests/peers/java/flink for Flink's jobs.
    """
    sources = sorted(_sources(version).glob("*.java"))
    stamp = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = jars.CACHE / "drivers" / version / stamp
    with alone(folder.parent):
        if not folder.exists():
            _compile(version, sources, folder)
    return folder


def _compile(version: str, sources: Sequence[Path], folder: Path) -> None:
    shutil.rmtree(folder.parent, ignore_errors=True)
    partial = folder.with_suffix(".partial")
    partial.mkdir(parents=True)
    command = ["javac", "-nowarn", "-d", str(partial), "-cp", jars.class_path(version), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TOOL_TIMEOUT_S)
    if done.returncode != 0:
        raise JavaFailed(f"javac ended with {done.returncode}:\n{done.stderr}")
    partial.rename(folder)


def _sources(version: str) -> Path:
    if version in (jars.APPLICATIONS, jars.FLINK):
        return SOURCES / version
    return SOURCES / "legacy" if version in jars.LEGACY_VERSIONS else SOURCES


def driver_command(
    version: str, main_class: str, arguments: Sequence[str] = (), flags: Sequence[str] = ()
) -> list[str]:
    """The command line of one of our classes under tests/peers/java, with the JVM flags `flags`."""
    class_path = f"{jars.class_path(version)}:{compiled(version)}"  # the flags must begin with the archive's class path
    archive_flags = use_if_there(archive(version)).java_flags
    return ["java", *flags, *archive_flags, *_log_flags(), "-cp", class_path, main_class, *arguments]


def _log_flags() -> list[str]:
    """Only warnings, and on stderr: Kafka 3.9 reads log4j 1 properties, 4.x has no logging backend in these jars."""
    return [f"-Dlog4j.configuration=file:{SOURCES / 'tools-log4j.properties'}"]


def _short(command: Sequence[str]) -> str:
    return " ".join(part for part in command if not part.startswith("-D") and "*" not in part)


def _tail(output: bytes) -> str:
    return output[-4000:].decode(errors="replace")
