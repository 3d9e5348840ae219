"""Images for the container tests, built locally: nothing is pulled. ``python -m tests.containers.images`` builds all.

The base is Debian's own minimal system with Java and Python, made by debootstrap. ZooKeeper images contain the jars on
Maven Central; the broker is built by ``docker/Dockerfile`` with the base as its build argument and wheels from this
machine. An image is built once and kept, under a tag that names its contents.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.peers import jars

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "target" / "containers"
HERE = Path(__file__).resolve().parent
REPOSITORY = "kafka-zk-test"
BROKER = f"{REPOSITORY}/broker:local"
SUITE = "bookworm"
BASE_PACKAGES = ("openjdk-17-jre-headless", "python3", "python3-venv")
DEFAULT_ZOOKEEPER = "3.9.5"
ZOOKEEPER_VERSIONS = ("3.4.14", "3.5.10", "3.6.4", "3.7.2", "3.8.4", DEFAULT_ZOOKEEPER)
ONE_IN = 5
"""With ``--slice``, the oldest and the newest version."""
TIMEOUT_S = 900


class BuildFailed(Exception):
    """A command of a build failed; carries the end of its output."""


def base_image() -> str:
    """Debian with Java 17 and Python 3, by debootstrap."""
    tag = f"{REPOSITORY}/base:{_digest(SUITE, *BASE_PACKAGES)}"
    if not exists(tag):
        system = CACHE / "base"
        shutil.rmtree(system, ignore_errors=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        include = f"--include={','.join(BASE_PACKAGES)}"
        _run(["debootstrap", "--variant=minbase", include, SUITE, str(system)])
        for unneeded in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
            shutil.rmtree(system / unneeded, ignore_errors=True)
        with subprocess.Popen(["tar", "-C", str(system), "-c", "."], stdout=subprocess.PIPE) as tar:
            _run(["docker", "import", "-", tag], stdin=tar.stdout)
        shutil.rmtree(system)
    return tag


def zookeeper_image(version: str = DEFAULT_ZOOKEEPER) -> str:
    """A ZooKeeper server of one version."""
    files = [HERE / "zookeeper" / name for name in ("Dockerfile", "start", "pom.xml")]
    tag = f"{REPOSITORY}/zookeeper:{version}-{_digest(*(file.read_text() for file in files))}"
    if not exists(tag):
        context = CACHE / f"zookeeper-{version}"
        shutil.rmtree(context, ignore_errors=True)
        context.mkdir(parents=True)
        for file in files[:2]:
            shutil.copy(file, context)
        target = [f"-Dzookeeper.version={version}", f"-DoutputDirectory={context / 'lib'}"]
        _run(["mvn", "-q", "-B", "-f", str(files[2]), "dependency:copy-dependencies", *target])
        _build(tag, context, {"BASE_IMAGE": base_image()})
        shutil.rmtree(context)
    return tag


def kafka_image(version: str) -> str:
    """Apache Kafka's own broker, with the jars of the peers' tests; requires the image of our broker."""
    files = [HERE / "kafka" / name for name in ("Dockerfile", "start.py", "log4j.properties")]
    tag = f"{REPOSITORY}/kafka:{version}-{_digest(*(file.read_text() for file in files))}"
    if not exists(tag):
        context = CACHE / f"kafka-{version}"
        shutil.rmtree(context, ignore_errors=True)
        shutil.copytree(jars.jars(version), context / "lib")
        for file in files:
            shutil.copy(file, context)
        _build(tag, context, {"BASE_IMAGE": BROKER})
        shutil.rmtree(context)
    return tag


def broker_image() -> str:
    """A broker of this source tree; always built, from the cache of the engine where nothing changed."""
    wheels = CACHE / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    _run([sys.executable, "-m", "pip", "wheel", "-q", "--wheel-dir", str(wheels), str(ROOT)])
    offline = "--no-index --find-links=target/containers/wheels kafka-zk"
    arguments = {"BASE_IMAGE": base_image(), "BUILD_IMAGE": base_image(), "PIP_ARGUMENTS": offline}
    _build(BROKER, ROOT, arguments, "docker/Dockerfile")
    return BROKER


def _build(tag: str, context: Path, arguments: Mapping[str, str], dockerfile: str = "Dockerfile") -> None:
    build_arguments = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    _run(["docker", "build", "-q", "-t", tag, "-f", str(context / dockerfile), *build_arguments, str(context)])


def exists(tag: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", tag], capture_output=True, check=False).returncode == 0


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _run(command: Sequence[str], stdin: IO[bytes] | None = None) -> None:
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")


def build(*, is_slice: bool = False) -> list[str]:
    """Every image of the container tests, or of ``--slice``, before they start: workers must not build the same one at
    once."""
    versions = ZOOKEEPER_VERSIONS[::ONE_IN] if is_slice else ZOOKEEPER_VERSIONS
    kafkas = () if is_slice else (jars.ORACLE_VERSION, jars.NEWEST_VERSION)
    return [broker_image(), *map(zookeeper_image, versions), *map(kafka_image, kafkas)]


if __name__ == "__main__":
    print(*build(), sep="\n")
