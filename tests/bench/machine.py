"""The commit and the machine of a run, which every stored result includes."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.peers import apache_kafka, jars
from tests.peers.jars import REPOSITORY_ROOT


def facts(broker_cores: str | None, overrides: Mapping[str, str]) -> dict[str, Any]:
    """The facts that are needed to repeat a run with brokers. ``overrides``: settings beyond Kafka's
    config/server.properties.
    """
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **commit(),
        "machine": describe(),
        "broker_cores": broker_cores,
        "server_properties": apache_kafka.server_properties(0, 0, Path("DATA"), "ZOOKEEPER", overrides),
        "kafka_version": jars.ORACLE_VERSION,
        "kafka_jvm_flags": list(apache_kafka.BROKER_JVM_FLAGS),
    }


def commit() -> dict[str, Any]:
    """The checked-out commit, and whether files under version control differ from it."""
    return {
        "commit": _output("git", "rev-parse", "HEAD"),
        "changed_files": len(_output("git", "status", "--porcelain", "--untracked-files=no").splitlines()),
    }


def trees(paths: Sequence[str]) -> str:
    """A name for the content of these folders and files: that of the commit, with a ``+`` if some of them differ from
    it.
    """
    named = _output("git", "rev-parse", *(f"HEAD:{path}" for path in paths))
    changed = _output("git", "status", "--porcelain", "--untracked-files=no", "--", *paths)
    return hashlib.sha256(named.encode()).hexdigest()[:12] + ("+" if changed else "")


def describe() -> dict[str, Any]:
    """Processor, cores, memory, kernel, Python and Java."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": sorted(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": _output("java", "-version").partition("\n")[0],
        "load_average_at_start": os.getloadavg()[0],
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY_ROOT, timeout=60)
    return (done.stdout or done.stderr).strip()
