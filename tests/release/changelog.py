"""Gathers the files of docs/changes into a section of CHANGELOG.md. Pure, but for ``collect``, which runs scriv."""

import re
import subprocess
import sys
from pathlib import Path

from tests.release.refusals import heading_of


def collect(folder: Path, version: str, date: str) -> bool:
    """Move all files of docs/changes below ``folder`` into the section of ``version``; False if there were none.

    Raises: CalledProcessError if scriv fails.
    """
    page = folder / "CHANGELOG.md"
    has_files = any(path.name != "README.md" for path in (folder / "docs" / "changes").glob("*.md"))
    if has_files:
        command = [sys.executable, "-m", "scriv", "collect", "--title", title(version, date)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    page.write_text(merged(page.read_text(), version, date))
    return has_files


def title(version: str, date: str) -> str:
    return f"{version} ({date})"


def merged(text: str, version: str, date: str) -> str:
    """The page with one section for ``version``: first the text that was written by hand below its unreleased heading,
    then the text that scriv has collected."""
    by_hand = heading_of(version)
    if by_hand not in text:
        return text
    gathered = f"## {title(version, date)}"
    body = ""
    if gathered in text:
        section = _section(text, gathered)
        text = text.replace(section, "")
        body = section.removeprefix(gathered).strip() + "\n"
    section = _section(text, by_hand)
    joined = section.replace(by_hand, gathered).rstrip() + "\n" + (f"\n{body}" if body else "")
    return re.sub(r"\n{3,}", "\n\n", text.replace(section, joined + "\n").rstrip() + "\n")


def notes(text: str, version: str) -> str:
    """The section of a released version, without its heading."""
    heading = re.search(rf"^## {re.escape(version)} .*$", text, re.MULTILINE)
    assert heading is not None, "the release has a section"
    return _section(text, heading[0]).removeprefix(heading[0]).strip()


def _section(text: str, heading: str) -> str:
    start = text.index(heading)
    end = text.find("\n## ", start)
    return text[start:] if end < 0 else text[start : end + 1]

