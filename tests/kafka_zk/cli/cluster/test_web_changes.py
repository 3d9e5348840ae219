"""Only a live cluster can be changed from the page, and has records to show."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_zk.cli.cluster.web import command


@pytest.mark.parametrize("option", ["--allow-changes", "--allow-values"])
@pytest.mark.parametrize("arguments", [("recorded.sqlite",), ("--broker-logs", ".")])
def test_a_recording_permits_neither(
    arguments: tuple[str, ...], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, [*arguments, option])
    assert (done.exit_code, "need a live cluster" in done.output) == (2, True), done.output
