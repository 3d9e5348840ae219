"""How Sphinx builds the documentation (`make docs`). Reference pages come from the tables in code: reference.py."""

import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import reference  # noqa: E402

from kafka_zk import __version__  # noqa: E402

project = "kafka-zk"
copyright = "the kafka-zk developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["decisions/README.md", "changes"]
myst_heading_anchors = 4
autodoc_typehints = "description"
autodoc_member_order = "bysource"
html_theme = "furo"
html_title = "kafka-zk"

# Pages also link to files of the repository, for readers who have it. The site shows their paths instead.
_LINK = re.compile(r"\[([^\]]*)\]\(([^):#]+)(#[^)]*)?\)")
_PAGES_OUTSIDE = {DOCS.parent / "CHANGELOG.md": "/reference/changelog.md"}


def _within_the_site(text: str, folder: Path) -> str:
    """The text of a page of ``folder``, with links to pages of the site only."""

    def replaced(link: re.Match[str]) -> str:
        words, target, anchor = link.groups(default="")
        path = (folder / target).resolve()
        if path in _PAGES_OUTSIDE:
            return f"[{words}]({_PAGES_OUTSIDE[path]}{anchor})"
        if path.is_relative_to(DOCS) and path.is_file():
            return f"[{words}](/{path.relative_to(DOCS)}{anchor})"
        if not path.exists():
            return link[0]  # no link: code that looks like one
        shown = str(path.relative_to(DOCS.parent))
        return f"`{shown}`" if shown.endswith(words.strip("`/")) else f"{words} (`{shown}`)"

    return _LINK.sub(replaced, text)


def _read(app: object, name: str, source: list[str]) -> None:
    source[0] = _within_the_site(source[0], (DOCS / name).parent)


def _included(app: object, path: Path, parent: str, source: list[str]) -> None:
    source[0] = _within_the_site(source[0], (DOCS / path).resolve().parent)


def setup(app: Any) -> None:
    reference.write_all(DOCS / "generated")
    app.connect("source-read", _read)
    app.connect("include-read", _included)
