"""Words that betray prose which reads like a translation, in docstrings, comments, messages and pages.

``WORDS`` lists the few files in which a word is right. An entry that is no longer needed fails, so that the list can
only shrink.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

WORDS: dict[str, tuple[str, ...]] = {
    "nobody": ("kafka_zk/sim/scenarios/stage.py",),  # recorded histories quote it
    "somebody": (),
    "anybody": (),
    "whoever": (),
    "(is|are|was|were)( not)? told|told to": (),
    "so (many|much)": (),
    "heard of": (),
    "got on": (),
    "goes on": (),
    "for ever": (),
    "anew": (),
    "likewise": (),
    "amid": (),
    "in vain": (),
    "in (hand|work)": (),
    "goes (astray|its way)": (),
    "thereof": (),
    "forerunner": (),
    "lets in": (),
    "as it was": (),
    "(that|what) is to": (),
    "he|his|him": (),
}
"""Pattern -> the files that may contain it."""

WORDS_IN_TESTS = re.compile(r"\b(whoever|anew|likewise|heard of|so (many|much))\b", re.IGNORECASE)
"""Words that must not occur in tests, either."""

PAGES = (".css", ".html", ".js")
"""Suffixes of files that are searched as a whole: their names follow the same rule as their prose."""


def folders() -> list[str]:
    """The packages: the top-level ones, and those of ``kafka_zk`` that are not links to them."""
    inner = (path for path in (ROOT / "kafka_zk").iterdir() if path.is_dir() and not path.is_symlink())
    outer = (ROOT / name for name in ("storage", "registry", "rebalance", "spark_jobs"))
    return sorted(str(path.relative_to(ROOT)) for path in (*inner, *outer) if (path / "__init__.py").exists())


STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
"""From Python 3.12 on, an f-string is several tokens."""


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """(Line, text) of each comment, and of each string, or part of an f-string, that contains a space."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type in STRINGS and " " in token.string):
            yield token.start[0], " ".join(token.string.split())


def found(source: str, suffix: str = ".py") -> set[str]:
    """The patterns that occur in the prose of a module, or anywhere in a file of a page."""
    texts = [" ".join(source.split())] if suffix in PAGES else [text for _, text in prose_of(source)]
    return {word for word in WORDS if any(re.search(rf"\b({word})\b", text, re.IGNORECASE) for text in texts)}


@cache
def found_in(folder: str) -> set[tuple[str, str]]:
    """(Pattern, file) for each pattern in a folder's modules and pages."""
    paths = [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".py", *PAGES)]
    return {(word, str(path.relative_to(ROOT))) for path in paths for word in found(path.read_text(), path.suffix)}


@pytest.mark.parametrize("folder", folders())
def test_a_folder_has_plain_words(folder: str) -> None:
    assert not sorted((word, path) for word, path in found_in(folder) if path not in WORDS[word])


def test_the_tests_have_plain_words() -> None:
    """The modules are searched as whole texts, which is faster than tokenizing them."""
    modules = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    assert not [str(path) for path in modules if WORDS_IN_TESTS.search(path.read_text())]


def test_no_right_place_is_left_over() -> None:
    """An allowed file that no longer has its word is removed from ``WORDS``."""
    places = {(word, path) for word, paths in WORDS.items() for path in paths}
    assert not places - set().union(*map(found_in, folders()))


@pytest.mark.parametrize(
    "source",
    ['"""A lock\nthat nobody holds."""', "x = 1  # Whoever asks.", 'raise ValueError(f"{x} is told")'],
)
def test_a_word_is_found_wherever_prose_is(source: str) -> None:
    assert found(source)


@pytest.mark.parametrize("source", ["nobody = told", "'nobody'", "# The header, this, and a cloned repository."])
def test_names_and_parts_of_words_are_not_prose(source: str) -> None:
    assert not found(source)


@pytest.mark.parametrize("source", ["// Whoever asks.", '<p title="Nobody leads">', ".nobody { color: red; }"])
def test_a_word_is_found_anywhere_in_a_page(source: str) -> None:
    assert found(source, ".js")
