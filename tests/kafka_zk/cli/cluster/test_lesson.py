"""A lesson is saved only in a new file, and only if it has a page."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_zk.cli.cluster.lesson import command


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "--record saves the lesson of --web, so it needs --web"),
        (["--web", "0"], "already exists: choose another name, or delete it"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_a_cluster_starts(
    tmp_path: Path, options: list[str], reason: str
) -> None:
    (tmp_path / "lesson.sqlite").touch()
    result = CliRunner().invoke(command, [*options, "--record", str(tmp_path / "lesson.sqlite")])
    assert result.exit_code != 0 and reason in result.output + str(result.exception)
