"""The reasons to refuse a release, one sentence each. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

NOT_ON_THE_INDEX = "is not on PyPI"


class Facts(NamedTuple):
    """The facts about a repository that decide whether a version can be released.

    Attributes:
        asked: the version to release.
        declared: the version in ``kafka_zk/__init__.py``.
        quoted: versions in files that name the image, by file.
        changed: uncommitted changes, as ``git status --porcelain`` prints them.
        tags: all tags.
        tags_of_head: those of the commit that is checked out.
        changelog: the text of CHANGELOG.md.
        readme: the text of README.md.
        repository: the repository's address for browsers; empty if unknown.
    """

    asked: str
    declared: str
    quoted: Sequence[tuple[str, str]]
    changed: Sequence[str]
    tags: Sequence[str]
    tags_of_head: Sequence[str]
    changelog: str
    readme: str
    repository: str


def tag_of(version: str) -> str:
    return f"v{version}"


def heading_of(version: str) -> str:
    """The heading of an unreleased version's section in CHANGELOG.md."""
    return f"## {version} (unreleased)"


def refusals(facts: Facts, *, at_tag: bool = False) -> Iterator[str]:
    """The reasons why this version cannot be released now. ``at_tag``: its files are built again from its tag."""
    tag = tag_of(facts.asked)
    if facts.asked != facts.declared:
        yield f"kafka_zk/__init__.py says {facts.declared}, not {facts.asked}: change and commit it, then try again."
    for file, version in facts.quoted:
        if version != facts.declared:
            yield f"{file} names version {version} of the image, not {facts.declared}: change and commit it."
    if facts.changed:
        count = len(facts.changed)
        yield f"The tree has {count} uncommitted changes, such as {facts.changed[0]!r}: commit or remove them."
    if at_tag and tag not in facts.tags_of_head:
        yield f"The commit that is checked out has no tag {tag}: check out {tag}."
    if not at_tag and tag in facts.tags:
        yield f"The tag {tag} exists: a version is released once, so choose the next one."
    if not at_tag and f"## {facts.asked} " in facts.changelog.replace(heading_of(facts.asked), ""):
        yield f"CHANGELOG.md already has a section for {facts.asked}: choose the next version."


def reminders(facts: Facts) -> Iterator[str]:
    """Problems that make ``--tag`` fail, but that are only reminders in a rehearsal."""
    if NOT_ON_THE_INDEX in " ".join(facts.readme.split()):
        yield f"README.md says that kafka-zk {NOT_ON_THE_INDEX}: describe how to install it from there."
    if not facts.repository.startswith("https://"):
        yield "The repository's address is unknown: add the remote origin, or use --repository https://..."
