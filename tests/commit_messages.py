"""Checks commit messages: ``python -m tests.commit_messages``, or ``--file FILE`` for one that is about to be made.

A subject is an imperative sentence of at most 72 characters, without a full stop; a body says why. The command prints a
line for each fault, and then exits with 1. Without a git history (an sdist, a shallow clone) it checks nothing and says
so.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: This commit and those before it are not checked: most are older than the rules, and commits cannot be changed.
FIRST_CHECKED = "01808ed0"
MAX_SUBJECT = 72
#: Imperatives that look like a past tense or a participle.
_IMPERATIVES = frozenset({"bring", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"})
_INFLECTED = re.compile(r"(\w+(?:ed|ing)|fixes|adds|removes|makes|updates|moves|changes|lets|renames)$", re.IGNORECASE)
_COMMENT = "#"


class NoHistory(Exception):
    """There is no git repository, or its history does not reach back to FIRST_CHECKED."""


def faults(message: str) -> Iterator[str]:
    """Descriptions of the faults of one commit message; none for merges."""
    lines = [line for line in message.splitlines() if not line.startswith(_COMMENT)]
    subject, rest = (lines[0], lines[1:]) if lines else ("", [])
    if subject.startswith("Merge "):
        return
    if not subject:
        yield "has no subject"
        return
    if len(subject) > MAX_SUBJECT:
        yield f"has a subject of {len(subject)} characters; at most {MAX_SUBJECT}"
    if subject.endswith("."):
        yield "has a subject with a full stop"
    if not subject[0].isupper():
        yield "has a subject that does not begin with a capital letter"
    first_word = subject.split()[0]
    if _INFLECTED.match(first_word) and first_word.lower() not in _IMPERATIVES:
        yield f"has a subject that begins with {first_word!r}, not with an imperative"
    if rest and rest[0]:
        yield "has no blank line after its subject"
    if not any(line.strip() for line in rest):
        yield "has no body that says why"


def history() -> list[tuple[str, str]]:
    """Name (hash and subject) and message of each commit after FIRST_CHECKED, newest first. Raises: NoHistory."""
    command = ["git", "log", "--format=%h (%s)%x00%B%x01", f"{FIRST_CHECKED}..HEAD"]
    try:
        log = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoHistory(f"commit messages are not checked: git does not know {FIRST_CHECKED} here") from error
    entries = (entry.strip().partition("\0") for entry in log.split("\x01"))
    return [(name, message) for name, _, message in entries if name]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.commit_messages", description=__doc__)
    parser.add_argument("--file", type=Path, help="a file with the message of the commit to be made")
    file: Path | None = parser.parse_args(arguments).file
    try:
        messages = history() if file is None else [("this commit", file.read_text())]
    except NoHistory as none:
        print(none)
        return 0
    found = [f"{name} {fault}" for name, message in messages for fault in faults(message)]
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
