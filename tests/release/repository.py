"""Reads facts from git and the repository's files, and makes the commit of a release."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.release.refusals import Facts, tag_of

_IMAGE = re.compile(r"kafka-zk:(\d[\w.]*)")
_NAMES_THE_IMAGE = ("docker/*.yml", "docs/how-to/containers.md")


def git(folder: Path, *arguments: str) -> str:
    """Run ``git`` and return its output. Raises: CalledProcessError."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def facts(folder: Path, asked: str | None, repository: str | None) -> Facts:
    """Collect the facts. ``asked``: None for the version that the code declares. ``repository``: None for the address
    of the remote origin."""
    declared = declared_version(folder)
    return Facts(
        asked=asked or declared,
        declared=declared,
        quoted=list(_quoted(folder)),
        changed=git(folder, "status", "--porcelain").splitlines(),
        tags=git(folder, "tag").split(),
        tags_of_head=git(folder, "tag", "--points-at", "HEAD").split(),
        changelog=(folder / "CHANGELOG.md").read_text(),
        readme=(folder / "README.md").read_text(),
        repository=repository or address(_origin(folder)),
    )


def declared_version(folder: Path) -> str:
    found = re.search(r'^__version__ = "(.+)"$', (folder / "kafka_zk" / "__init__.py").read_text(), re.MULTILINE)
    assert found is not None, "kafka_zk/__init__.py has a version"
    return found[1]


def _quoted(folder: Path) -> Iterator[tuple[str, str]]:
    for pattern in _NAMES_THE_IMAGE:
        for file in sorted(folder.glob(pattern)):
            for version in sorted(set(_IMAGE.findall(file.read_text()))):
                yield str(file.relative_to(folder)), version


def _origin(folder: Path) -> str:
    if "origin" not in git(folder, "remote").split():
        return ""
    return git(folder, "remote", "get-url", "origin")


def address(remote: str) -> str:
    """The browser address of a remote with an HTTPS or SSH address, such as ``git@host:owner/name.git``."""
    by_ssh = re.fullmatch(r"(?:ssh://)?git@([^:/]+)[:/](.+)", remote)
    found = f"https://{by_ssh[1]}/{by_ssh[2]}" if by_ssh else remote
    return re.sub(r"^https://[^@/]*@", "https://", found).removesuffix("/").removesuffix(".git")


def clone(folder: Path, target: Path) -> Path:
    """Clone ``folder``, without uncommitted files; new commits get the same author, if there is one."""
    git(folder, "clone", "--quiet", "--no-hardlinks", "--no-tags", str(folder), str(target))
    for key in ("user.name", "user.email"):
        if value := git(folder, "config", "--default", "", "--get", key):
            git(target, "config", key, value)
    return target


def commit_all(folder: Path, version: str) -> None:
    """Commit everything, if anything has changed."""
    git(folder, "add", "--all")
    if git(folder, "status", "--porcelain"):
        reason = "The changelog has its section, and the build knows where the repository is."
        git(folder, "commit", "--quiet", "--message", f"Release {version}", "--message", reason)


def adopt(folder: Path, released: Path, version: str, notes: str) -> None:
    """Move the branch of ``folder`` to the commit of ``released``, and tag that commit with these notes."""
    git(folder, "fetch", "--quiet", "--no-tags", str(released), "HEAD")
    git(folder, "merge", "--quiet", "--ff-only", "FETCH_HEAD")
    message = f"kafka-zk {version}\n\n{notes}"
    git(folder, "tag", "--annotate", "--cleanup=whitespace", tag_of(version), "--message", message)


def committed_at(folder: Path) -> str:
    """Commit time of the checked-out commit, in seconds since the epoch. Every file in a build gets this time."""
    return git(folder, "log", "-1", "--format=%ct")
