"""Prepares what an index shows for a version: README.md with links into the repository, and the project's addresses."""

import configparser
import re
from pathlib import Path

from tests.release.refusals import tag_of
from tests.release.repository import declared_version

_RELATIVE_LINK = re.compile(r"(?P<image>!?)(?P<words>\[[^\]]*\])\((?![a-z]+:|#)(?P<path>[^)\s]+)\)")
_PAGES = {"Source": "", "Documentation": "/tree/main/docs", "Changelog": "/blob/main/CHANGELOG.md", "Issues": "/issues"}


def write_addresses(folder: Path, repository: str) -> None:
    """Write the addresses of the project's pages into setup.cfg."""
    file = folder / "setup.cfg"
    text = re.sub(r"^project_urls =\n(?: .*\n)*", "", file.read_text(), flags=re.MULTILINE)
    lines = "".join(f"    {label} = {repository}{page}\n" for label, page in _PAGES.items())
    file.write_text(text.replace("name = kafka-zk\n", f"name = kafka-zk\nproject_urls =\n{lines}", 1))


def write_absolute_links(folder: Path) -> None:
    """Make README's links point to the files of its version. Without an address in setup.cfg, do nothing.

    Do not commit the result: relative links are right in a clone.
    """
    about = configparser.ConfigParser()
    about.read(folder / "setup.cfg", encoding="utf-8")
    urls = dict(line.split(" = ", 1) for line in about.get("metadata", "project_urls", fallback="").split("\n") if line)
    if repository := urls.get("Source"):
        file = folder / "README.md"
        text = file.read_text(encoding="utf-8")
        file.write_text(absolute(text, repository, declared_version(folder)), encoding="utf-8")


def absolute(text: str, repository: str, version: str) -> str:
    """``text`` with absolute instead of relative links: images link to raw files, everything else to pages."""

    def address(link: re.Match[str]) -> str:
        kind = "raw" if link["image"] else "blob"
        return f"{link['image']}{link['words']}({repository}/{kind}/{tag_of(version)}/{link['path']})"

    return _RELATIVE_LINK.sub(address, text)
