"""The files of docs/changes become a section of CHANGELOG.md."""

import shutil
from pathlib import Path

import pytest

from tests.release import changelog

ROOT = Path(__file__).parents[2]
BY_HAND = """# Changelog

<!-- scriv-insert-here -->

## 0.1.0 (unreleased)

The first release.

### Brokers
- All APIs.
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two change files."""
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    (tmp_path / "kafka_zk").mkdir()
    (tmp_path / "kafka_zk" / "__init__.py").write_text('__version__ = "0.1.0"\n')
    changes = tmp_path / "docs" / "changes"
    changes.mkdir(parents=True)
    (changes / "README.md").write_text("# One file for each change\n")
    (changes / "a.md").write_text("### Fixed\n\n- A fix.\n")
    (changes / "b.md").write_text("### Added\n\n- A thing.\n")
    (tmp_path / "CHANGELOG.md").write_text(BY_HAND)
    return tmp_path


def test_files_follow_what_was_written_by_hand_in_one_section(project: Path) -> None:
    assert changelog.collect(project, "0.1.0", "2026-12-01")
    assert (project / "CHANGELOG.md").read_text() == """# Changelog

<!-- scriv-insert-here -->

## 0.1.0 (2026-12-01)

The first release.

### Brokers
- All APIs.

### Added

- A thing.

### Fixed

- A fix.
"""
    assert [path.name for path in (project / "docs" / "changes").iterdir()] == ["README.md"]


def test_a_later_version_has_a_section_of_its_own_above(project: Path) -> None:
    changelog.collect(project, "0.1.0", "2026-12-01")
    (project / "docs" / "changes" / "c.md").write_text("### Changed\n\n- Another.\n")
    changelog.collect(project, "0.2.0", "2027-01-01")
    text = (project / "CHANGELOG.md").read_text()
    assert text.index("## 0.2.0 (2027-01-01)") < text.index("- Another.") < text.index("## 0.1.0 (2026-12-01)")
    assert changelog.notes(text, "0.2.0") == "### Changed\n\n- Another."


def test_without_files_the_section_gets_its_date(project: Path) -> None:
    for file in (project / "docs" / "changes").glob("?.md"):
        file.unlink()
    assert not changelog.collect(project, "0.1.0", "2026-12-01")
    assert "## 0.1.0 (2026-12-01)\n\nThe first release." in (project / "CHANGELOG.md").read_text()


def test_notes_end_where_the_next_section_begins(project: Path) -> None:
    text = "## 0.2.0 (x)\n\n- Two.\n\n## 0.1.0 (y)\n\n- One.\n"
    assert changelog.notes(text, "0.2.0") == "- Two."
    assert changelog.notes(text, "0.1.0") == "- One."
