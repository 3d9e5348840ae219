"""Types README's commands from top to bottom, then the quickstart's, as a user would. Shows how long each one took, and
how long it was silent.

    python -m tests.readme                      in a fresh clone, with everything installed by pip: minutes
    python -m tests.readme --linked             with the packages of this environment: under a minute
    python -m tests.readme --longest-silence 1  fails if make or kafka-zk shows nothing for more than 1 s

Every command runs on a terminal of 80 columns. If the ports 9092 to 9094 or 2181 are in use, others replace them.
``make test`` is not run unless ``--whole`` asks for it; ``make compare`` is never run.
"""

import argparse
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_zk.embedded.ports import can_listen, free_port
from tests.documented import BOOTSTRAP, ROOT, ZOOKEEPER, Block, blocks
from tests.fresh_environment import build_wheel, clean_environ, fresh_environment
from tests.terminal import Ran, Shell

PAGES = ("README.md", "docs/tutorials/quickstart.md")
TIMEOUT_S = 180
INSTALL_TIMEOUT_S = 1800
TEST_TIMEOUT_S = 5400
READY = "ready bootstrap="
COMMAND_WIDTH = 88
INSTALLING = frozenset(("clean clone", "install"))
NOT_TYPED = frozenset(("compare",))
"""Commands that are not typed: ``compare`` needs Java and Maven, and takes an hour."""
OURS = re.compile(r"^make |(^|\| *)kafka-zk ")
"""Our own commands, which must show progress; pip, pytest and the reader's own programs are not ours."""


class Ports(NamedTuple):
    """Where the cluster of ``up`` listens: ``first`` and the ones that follow, and ZooKeeper's."""

    first: int = 9092
    zookeeper: int = 2181

    @classmethod
    def free(cls) -> "Ports":
        """README's own ports if they are free, else others."""
        return cls() if cls()._can_listen() else cls.other()

    @classmethod
    def other(cls) -> "Ports":
        """Other ports, which are free."""
        while not (found := cls(free_port(), free_port()))._can_listen():
            pass
        return found

    def _can_listen(self) -> bool:
        return all(map(can_listen, (*range(self.first, self.first + 3), self.zookeeper)))

    def up(self, command: str) -> str:
        """README's ``up`` with these ports."""
        return command.replace("--port 9092", f"--port {self.first}") + f" --zookeeper-port {self.zookeeper}"

    def move(self, block: Block) -> Block:
        return block.elsewhere(self.bootstrap, self.connect)

    @property
    def bootstrap(self) -> str:
        return BOOTSTRAP.replace("9092", str(self.first))

    @property
    def connect(self) -> str:
        return ZOOKEEPER.replace("2181", str(self.zookeeper))

    @property
    def environ(self) -> dict[str, str]:
        return {"KAFKA_ZK_BOOTSTRAP": self.bootstrap, "KAFKA_ZK_ZOOKEEPER": self.connect}


class Reader:
    """A user who types README's commands in two terminals. Use it as a context manager.

    Args:
        folder: the clone.
        path: of the environment's ``bin``, if README's own installation is not to be followed.
    """

    def __init__(self, folder: Path, path: Path | None, whole: bool) -> None:
        self._folder, self._path, self._whole = folder, path, whole
        self._ports = Ports.free()
        self._terminals = contextlib.ExitStack()
        environ = {**person_environ(path), **(self._ports.environ if self._ports != Ports() else {})}
        self._first, self._second = (self._terminals.enter_context(Shell(folder, environ)) for _ in range(2))
        self._up = False

    def read(self, page: list[Block]) -> Iterator[Ran]:
        """Run everything; stops at the first command that fails."""
        for number, block in enumerate(page):
            if block.mark in NOT_TYPED or (block.mark in INSTALLING and self._path is not None):
                continue
            for ran in self._follow(self._ports.move(block), f"example_{number}"):
                yield ran
                if ran.exit_code != 0:
                    return
        if self._up:
            yield self._second.interrupt()

    def _follow(self, block: Block, name: str) -> Iterator[Ran]:
        if block.mark == "up":
            [command] = block.commands
            if self._path is None:
                self._second.run(". .venv/bin/activate")
            self._up = True
            command = self._ports.up(command) if self._ports != Ports() else command
            yield self._second.run_until(command, READY, TIMEOUT_S)
        elif block.language == "python":
            yield from self._program(block, name)
        else:
            for command in block.commands:
                if command.startswith("make test") and not self._whole:
                    continue
                yield self._first.run(command, _timeout_s(command))

    def _program(self, block: Block, name: str) -> Iterator[Ran]:
        if self._path is None:
            yield self._first.run(f"pip install {shlex.join(block.installs(self._folder))}", INSTALL_TIMEOUT_S)
        file = f"test_{name}.py" if block.mark == "pytest" else f"{name}.py"
        (self._folder / file).write_text(block.text)
        runner = "python -m pytest" if block.mark == "pytest" else "python"
        yield self._first.run(f"{runner} {file}", TIMEOUT_S)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._terminals.close()


def whole_page() -> list[Block]:
    """All blocks of README and the quickstart, in reading order."""
    return [block for page in PAGES for block in blocks(page)]


def _timeout_s(command: str) -> float:
    if command.startswith("make test"):
        return TEST_TIMEOUT_S
    return INSTALL_TIMEOUT_S if command.startswith(("make ", "pip ")) else TIMEOUT_S


def person_environ(path: Path | None) -> dict[str, str]:
    """The variables of a user's shell, with ``path`` first in PATH, and without the tests' own environment in it."""
    environ = {key: value for key, value in clean_environ().items() if not key.startswith(("MAKE", "MFLAGS", "KAFKA_"))}
    folders = [folder for folder in environ["PATH"].split(os.pathsep) if Path(folder) != Path(sys.prefix, "bin")]
    return {
        **environ,
        "PATH": os.pathsep.join([*([str(path)] if path else []), *folders]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def clone(folder: Path) -> Path:
    """Copy the files of this tree that git tracks, in their present state, to ``folder/kafka-zk``."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        target = folder / "kafka-zk" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, target, follow_symlinks=False)
    return folder / "kafka-zk"


def row(ran: Ran) -> str:
    """A line of the table, with the command's output if it failed."""
    how = "did not end" if ran.exit_code is None else f"exit code {ran.exit_code}"
    failure = f"\n  {how}:\n{textwrap.indent(ran.shown, '  | ')}" if ran.exit_code != 0 else ""
    command = ran.command if len(ran.command) <= COMMAND_WIDTH else ran.command[: COMMAND_WIDTH - 1] + "…"
    return f"{ran.seconds:8.1f} {ran.silence_s:8.1f}  {command}{failure}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.readme", description=__doc__.splitlines()[0])
    parser.add_argument("--linked", action="store_true", help="link what is installed here; do not install anything")
    parser.add_argument("--whole", action="store_true", help="run make test as well")
    parser.add_argument(
        "--longest-silence", type=float, metavar="SECONDS", help="fail if make or kafka-zk is silent longer"
    )
    options = parser.parse_args(arguments)
    page = whole_page()
    with tempfile.TemporaryDirectory(prefix="kafka-zk-readme-") as temporary:
        folder, path = Path(temporary), None
        if options.linked:
            needed = {text for block in page for text in block.requirements}
            path = fresh_environment(folder / "venv", build_wheel(folder / "wheel"), sorted(needed))
        print(" seconds  silence  command", flush=True)
        rans: list[Ran] = []
        with Reader(clone(folder), path, options.whole) as reader:
            for ran in reader.read(page):
                rans.append(ran)
                print(row(ran), flush=True)
    failed = [ran for ran in rans if ran.exit_code != 0]
    limit_s = float("inf") if options.longest_silence is None else options.longest_silence
    silent = [ran for ran in rans if OURS.search(ran.command) and ran.silence_s > limit_s]
    print(f"{len(rans)} commands, {len(failed)} failed, {sum(ran.seconds for ran in rans):.0f} s", flush=True)
    for ran in silent:
        print(f"nothing shown for {ran.silence_s:.1f} s: {ran.command}\n  after: {ran.before_silence}", flush=True)
    return 1 if failed or silent else 0


if __name__ == "__main__":
    sys.exit(main())
