"""Files that are not text are refused in one sentence, before the command connects to a server."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_zk.cli.groups import groups

NO_TEXT = b"\xff\xfe/consumers/g/offsets/t/0:1\n"


@pytest.mark.parametrize(
    "arguments",
    [["import", "--input-file"], ["reset-offsets", "--group", "g", "--from-file"]],
    ids=lambda arguments: arguments[0],
)
def test_a_file_that_is_not_utf_8_is_refused(arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(NO_TEXT)
    done = CliRunner().invoke(groups.command, [*arguments, str(path)])
    assert (done.exit_code, done.output) == (1, f"Error: {path} is not a text file in UTF-8\n")


def test_so_is_stdin() -> None:
    done = CliRunner().invoke(groups.command, ["import"], input=NO_TEXT)
    assert (done.exit_code, done.output) == (1, "Error: <stdin> is not a text file in UTF-8\n")
