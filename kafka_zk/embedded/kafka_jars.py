"""Finds the jars of Apache Kafka 3.9: in a folder, or else from Maven Central through the program ``mvn``, once."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from kafka_zk.embedded.class_archive import cache_folder
from kafka_zk.embedded.errors import JarsNotFound

VERSION = "3.9.1"
RELEASE = "3.9"
"""The last release that can migrate to KRaft, and the only one whose metadata the rehearsal knows."""
_SERVER_JAR = re.compile(r"kafka_2\.1[23]-(\d+\.\d+\.\d+)\.jar")
_RESOLVE_TIMEOUT_S = 900
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kafka-zk</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
  </dependencies>
</project>
"""


class KafkaJars(NamedTuple):
    """``folder``: its jars form the class path."""

    folder: Path
    version: str

    @property
    def class_path(self) -> str:
        return f"{self.folder}/*"


def jars_in(kafka_dir: Path) -> KafkaJars:
    """``kafka_dir``: an installation, or a folder of its jars. Raises: JarsNotFound, also for another release."""
    folder = kafka_dir / "libs" if (kafka_dir / "libs").is_dir() else kafka_dir
    versions = sorted(found[1] for file in folder.glob("kafka_*.jar") if (found := _SERVER_JAR.fullmatch(file.name)))
    if not versions:
        raise JarsNotFound(f"{kafka_dir} has no jar of a Kafka broker (libs/kafka_2.13-{VERSION}.jar)")
    if not versions[-1].startswith(f"{RELEASE}."):
        raise JarsNotFound(f"{kafka_dir} is Apache Kafka {versions[-1]}: a migration needs {RELEASE}")
    return KafkaJars(folder.resolve(), versions[-1])


def jars_from_maven() -> KafkaJars:
    """Downloads about 100 MB at the first call, into the user's cache folder. Raises: JarsNotFound, OSError."""
    cache = cache_folder()
    if cache is None:
        raise JarsNotFound("there is no cache folder for Kafka's jars: set HOME, or give --kafka-dir")
    folder = cache / f"kafka-{VERSION}"
    if not folder.is_dir():
        _download(folder)
    return jars_in(folder)


def _download(folder: Path) -> None:
    """The folder appears by a rename, when it is complete."""
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsNotFound(
            f"Apache Kafka {VERSION} is needed, and no mvn is on PATH to download it: give --kafka-dir with the folder "
            "of an unpacked kafka_2.13-3.9.x.tgz"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent, ignore_cleanup_errors=True) as unique:
        jars = Path(unique) / "jars"
        jars.mkdir()
        _resolve(maven, jars)
        try:
            jars.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise  # otherwise, another process was faster


def _resolve(maven: str, folder: Path) -> None:
    """Raises: JarsNotFound."""
    pom = folder / "pom.xml"
    pom.write_text(_POM)
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_RESOLVE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise JarsNotFound(f"mvn did not download Apache Kafka {VERSION} within {_RESOLVE_TIMEOUT_S} s") from None
    if done.returncode:
        said = next((line.strip() for line in done.stdout.splitlines() if "ERROR" in line), "nothing")
        raise JarsNotFound(f"mvn could not download Apache Kafka {VERSION}, saying: {said[:300]}")
