"""Measures the size of an installation: ``python -m tests.wheels.size target/dist 'kafka-zk[embedded]'``.

It installs the requirement into a fresh environment, and prints the size of the downloads and of the installation. The
two distributions of this repository come from a folder that ``make wheels`` filled, all others from the package index.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

MEGABYTE = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="has the wheels of kafka-zk and kafka-zk-zookeeper")
    parser.add_argument("requirement", nargs="?", default="kafka-zk[embedded]")
    arguments = parser.parse_args()
    downloaded, occupied = measure(arguments.folder.resolve(), arguments.requirement)
    print(f"{arguments.requirement}: {downloaded / MEGABYTE:.0f} MB to download, {occupied / MEGABYTE:.0f} MB on disk")


def measure(folder: Path, requirement: str) -> tuple[int, int]:
    """(Bytes of the downloaded archives, bytes by which the environment grows on disk).

    Raises: CalledProcessError if pip fails.
    """
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
        pip = [str(work / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        archives = work / "archives"
        download = [*pip, "wheel", "--find-links", str(folder), "--wheel-dir", str(archives), requirement]
        subprocess.run(download, check=True)
        before = occupied_bytes(work / "venv")
        subprocess.run([*pip, "install", "--no-index", "--find-links", str(archives), requirement], check=True)
        downloaded = sum(path.stat().st_size for path in archives.iterdir())
        return downloaded, occupied_bytes(work / "venv") - before


def occupied_bytes(folder: Path) -> int:
    """Size in disk blocks, because a small file takes a whole block."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


if __name__ == "__main__":
    main()
