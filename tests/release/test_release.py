"""Runs all of ``make release`` on a small repository, except the builds."""

import shutil
from pathlib import Path

import pytest

from tests.release import __main__ as release
from tests.release import distributions, image
from tests.release.repository import address, git

ROOT = Path(__file__).parents[2]
WHERE = "https://example.org/someone/kafka-zk"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("kafka_zk", "docs/changes", "docs/how-to", "docker"):
        (folder / name).mkdir(parents=True)
    shutil.copy(ROOT / "setup.cfg", folder)
    (folder / "kafka_zk" / "__init__.py").write_text('__version__ = "0.1.0"\n')
    changelog = "# Changelog\n\n<!-- scriv-insert-here -->\n\n## 0.1.0 (unreleased)\n\nThe first.\n"
    (folder / "CHANGELOG.md").write_text(changelog)
    (folder / "README.md").write_text("# kafka-zk\n")
    (folder / "docs" / "changes" / "a.md").write_text("### Added\n\n- A thing.\n")
    (folder / "docker" / "compose.yml").write_text("image: ${IMAGE:-kafka-zk:0.1.0}\n")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "user.name", "Someone")
    git(folder, "config", "user.email", "someone@example.org")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Change it")


@pytest.fixture(autouse=True)
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The changelogs of the trees that were built. Builds are replaced by a file that contains text."""
    seen: list[str] = []

    def build(folder: Path, target: Path) -> list[Path]:
        target.mkdir(exist_ok=True)
        seen.append((folder / "CHANGELOG.md").read_text())
        file = target / "kafka_zk-0.1.0.tar.gz"
        file.write_text(seen[-1])
        return [file]

    monkeypatch.setattr(distributions, "build", build)
    monkeypatch.setattr(release, "describe", lambda *_: None)
    monkeypatch.setattr(image, "has_engine", lambda: False)
    return seen


def run(project: Path, *arguments: str) -> int:
    return release.main(list(arguments), project, project.parent / "target")


def test_a_rehearsal_builds_the_release_and_leaves_the_repository_alone(
    project: Path, builds: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = git(project, "rev-parse", "HEAD")
    assert run(project) == 0
    assert len(builds) == 2 and all("- A thing." in text for text in builds)
    assert git(project, "rev-parse", "HEAD") == before and git(project, "tag") == ""
    shown = capsys.readouterr()
    assert "Nothing was committed or tagged" in shown.out
    assert "Before the release: The repository's address is unknown" in shown.err


def test_a_release_is_a_commit_with_a_tag_whose_notes_are_its_section(project: Path) -> None:
    assert run(project, "--tag", "--repository", WHERE) == 0
    assert git(project, "log", "-1", "--format=%s %an") == "Release 0.1.0 Someone"
    assert git(project, "rev-parse", "v0.1.0^{}") == git(project, "rev-parse", "HEAD")
    notes = git(project, "tag", "--list", "--format=%(contents)", "v0.1.0")
    assert notes == "kafka-zk 0.1.0\n\nThe first.\n\n### Added\n\n- A thing."
    assert f"    Source = {WHERE}\n" in (project / "setup.cfg").read_text()
    assert git(project, "status", "--porcelain") == ""


def test_a_tag_is_built_as_it_is(project: Path, builds: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(project, "--tag", "--repository", WHERE)
    assert run(project, "--at-tag", "--version", "0.1.0") == 0
    assert builds[-1] == (project / "CHANGELOG.md").read_text()
    assert "has the files of v0.1.0" in capsys.readouterr().out


def test_a_workflow_has_no_branch_and_no_author(
    project: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run(project, "--tag", "--repository", WHERE)
    git(project, "checkout", "--quiet", "v0.1.0")
    git(project, "branch", "--quiet", "--delete", "--force", "main")
    git(project, "config", "--remove-section", "user")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    assert run(project, "--at-tag", "--version", "0.1.0") == 0
    assert builds[-1] == (project / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--version", "0.2.0"], "Refused: kafka_zk/__init__.py says 0.1.0, not 0.2.0"),
        (["--at-tag"], "Refused: The commit that is checked out has no tag v0.1.0"),
        (["--tag"], "Refused: The repository's address is unknown"),
    ],
)
def test_a_refusal_builds_nothing(
    project: Path, arguments: list[str], sentence: str, builds: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(project, *arguments) == 1
    assert capsys.readouterr().err.startswith(sentence)
    assert builds == []


def test_a_dirty_tree_and_an_existing_tag_are_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(project, "tag", "v0.1.0")
    (project / "notes").touch()
    assert run(project) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in lines] == ["tree", "tag"]


def test_builds_that_differ_are_refused_and_not_tagged(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built: list[Path] = []

    def build(folder: Path, target: Path) -> list[Path]:
        target.mkdir(exist_ok=True)
        file = target / "kafka_zk-0.1.0.tar.gz"
        file.write_text(str(len(built)))
        built.append(file)
        return [file]

    monkeypatch.setattr(distributions, "build", build)
    assert run(project, "--tag", "--repository", WHERE) == 1
    assert "Refused: Two builds of the same commit differ: kafka_zk-0.1.0.tar.gz." in capsys.readouterr().err
    assert git(project, "tag") == ""


@pytest.mark.parametrize(
    "remote",
    [
        "https://example.org/someone/kafka-zk",
        "https://example.org/someone/kafka-zk.git",
        "https://token@example.org/someone/kafka-zk.git",
        "git@example.org:someone/kafka-zk.git",
        "ssh://git@example.org/someone/kafka-zk.git",
    ],
)
def test_remotes_have_an_address_for_browsers(remote: str) -> None:
    assert address(remote) == WHERE
