"""The code blocks in README.md and some pages of docs, and the requirements that each one states.

A comment before a block marks it. ``runs: NAME`` says how it is run. The block's first line says what to install, as a
command for readers: ``# pip install '.[embedded]'``. ``shows: NAME`` marks lines of the output of that block.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/tutorials/quickstart.md", "docs/tutorials/clients.md")
MARK = "runs: "
OUTPUT_MARK = "shows: "
BOOTSTRAP, ZOOKEEPER = "127.0.0.1:9092", "127.0.0.1:2181"

_BLOCK = re.compile(r"<!-- ([^>]*) -->\n```(\w+)\n(.*?)```", re.DOTALL)
_CLONE = re.compile(r"(?:\.|/path/to/kafka-zk)(/docker/zookeeper-wheel)?(\[[\w,]+\])?")


class Block(NamedTuple):
    page: str
    mark: str
    language: str
    text: str

    @property
    def requirements(self) -> list[str]:
        """The requirements that the first line installs with pip. The clone is ``kafka-zk``; it also contains another
        project, ``kafka-zk-zookeeper``."""
        found = ((name, _CLONE.fullmatch(name)) for name in self._installed)
        return [f"kafka-zk{'-zookeeper' if own[1] else own[2] or ''}" if own else name for name, own in found]

    def installs(self, clone: Path) -> list[str]:
        """The requirements in pip's form, for a clone at this path."""
        found = ((name, _CLONE.fullmatch(name)) for name in self._installed)
        return [f"{clone}{own[1] or ''}{own[2] or ''}" if own else name for name, own in found]

    @property
    def _installed(self) -> list[str]:
        first = self.text.partition("\n")[0]
        return shlex.split(first.removeprefix("# pip install ")) if first.startswith("# pip install ") else []

    @property
    def commands(self) -> list[str]:
        """The commands of a shell block, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line for line in lines if line.strip() and not line.startswith("#")]

    def elsewhere(self, bootstrap: str, zookeeper: str) -> "Block":
        """The same block for a cluster at other addresses."""
        return self._replace(text=self.text.replace(BOOTSTRAP, bootstrap).replace(ZOOKEEPER, zookeeper))


def blocks(page: str) -> list[Block]:
    """All marked blocks of a page, from top to bottom."""
    return [
        Block(page, mark.removeprefix(MARK), language, text)
        for mark, language, text in _BLOCK.findall((ROOT / page).read_text())
        if not mark.startswith(OUTPUT_MARK)
    ]


def outputs(page: str) -> dict[str, list[str]]:
    """The lines that a page shows as output, by the mark of the block that prints them."""
    return {
        mark.removeprefix(OUTPUT_MARK): text.splitlines()
        for mark, _, text in _BLOCK.findall((ROOT / page).read_text())
        if mark.startswith(OUTPUT_MARK)
    }


def block(mark: str) -> Block:
    """The only block with this mark."""
    [found] = [each for page in PAGES for each in blocks(page) if each.mark == mark]
    return found


def programs(page: str) -> list[Block]:
    """The marked blocks of a page that are in Python."""
    return [each for each in blocks(page) if each.language == "python"]
