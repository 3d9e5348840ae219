"""Release a version: changelog, reproducible distributions, their bills of materials, the image, the tag.

    make release                                  a rehearsal: everything but commit and tag, into target/release
    make release RELEASE_ARGS=--tag               the same, then commits and tags; pushes nothing
    make release RELEASE_ARGS=--at-tag            builds the files again from the tag's commit, as the workflow does

docs/how-to/releasing.md describes the steps before and after.
"""

import argparse
import datetime
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.release import bill, changelog, distributions, image, repository
from tests.release.description import write_addresses
from tests.release.refusals import Facts, refusals, reminders, tag_of

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "target" / "release"


def main(arguments: list[str] | None = None, root: Path = ROOT, target: Path = TARGET) -> int:
    options = parsed(arguments)
    facts = repository.facts(root, options.version, options.repository)
    refused, reminded = list(refusals(facts, at_tag=options.at_tag)), list(reminders(facts))
    if options.tag:
        refused, reminded = [*refused, *reminded], []
    for sentence in refused:
        print(f"Refused: {sentence}", file=sys.stderr)
    if refused:
        return 1
    for sentence in reminded:
        print(f"Before the release: {sentence}", file=sys.stderr)
    try:
        with tempfile.TemporaryDirectory(prefix="kafka-zk-release-") as temporary:
            released = prepared(root, Path(temporary) / "first", facts, at_tag=options.at_tag)
            files = built(released, Path(temporary), target / facts.asked)
            describe(files, target / facts.asked, repository.committed_at(released))
            make_image(released, files, facts.asked)
            if options.tag:
                notes = changelog.notes((released / "CHANGELOG.md").read_text(), facts.asked)
                repository.adopt(root, released, facts.asked, notes)
    except distributions.NotReproducible as error:
        print(f"Refused: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"Failed: {' '.join(map(str, error.cmd))}\n{error.stderr or ''}", file=sys.stderr)
        return 1
    print(ending(facts.asked, tagged=options.tag, at_tag=options.at_tag))
    return 0


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make release", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", help="must be the one that kafka_zk/__init__.py declares; this is the default")
    parser.add_argument("--repository", metavar="URL", help="where the repository is; default: the remote origin")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--tag", action="store_true", help="commit the changelog and tag the commit")
    how.add_argument("--at-tag", action="store_true", help="build the files of the tag that is checked out")
    return parser.parse_args(arguments)


def prepared(root: Path, folder: Path, facts: Facts, *, at_tag: bool) -> Path:
    """Make a clone whose last commit is the release."""
    repository.clone(root, folder)
    if not at_tag:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        changelog.collect(folder, facts.asked, today)
        if facts.repository:
            write_addresses(folder, facts.repository)
        repository.commit_all(folder, facts.asked)
    return folder


def built(released: Path, temporary: Path, target: Path) -> list[Path]:
    """Build the distributions twice, in different folders, and return them. Raises: NotReproducible if they differ."""
    target.mkdir(parents=True, exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    second = repository.clone(released, temporary / "a second build")
    files = distributions.build(released, target)
    found = distributions.digests(files)
    distributions.require_equal(found, distributions.digests(distributions.build(second, temporary / "again")))
    for name, digest in found.items():
        print(f"{digest}  {name}")
    return files


def describe(files: list[Path], target: Path, epoch: str) -> None:
    """Check the distributions' metadata for an index, and write bills of materials and checksums."""
    bill.run(sys.executable, "-m", "twine", "check", "--strict", *files)
    bills = [bill.write_bill(wheel, target, epoch) for wheel in distributions.installable(files)]
    sums = distributions.digests([*files, *bills])
    (target / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    print(f"Built twice with equal results; checked by twine; bills of materials: {', '.join(b.name for b in bills)}")


def make_image(released: Path, files: list[Path], version: str) -> None:
    if image.has_engine():
        print(f"Image: {image.build_image(released, files, version, repository.committed_at(released))}")
    else:
        print("Image: not built, because no Docker engine responds; the workflow builds it.")


def ending(version: str, *, tagged: bool, at_tag: bool) -> str:
    where = f"target/release/{version}"
    if at_tag:
        return f"{where} has the files of {tag_of(version)}."
    if tagged:
        return f"{where} has the files. Push the branch and {tag_of(version)}: docs/how-to/releasing.md"
    return f"{where} has the files. Nothing was committed or tagged: RELEASE_ARGS=--tag does that."


if __name__ == "__main__":
    sys.exit(main())
