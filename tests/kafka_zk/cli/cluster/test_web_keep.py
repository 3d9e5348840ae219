"""``kafka-zk web --keep`` needs a recording that grows, and a time that is long enough."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_zk.cli.cluster.web import command


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--keep", "P7D"), "--keep needs --record"),
        (("--keep", "P7D", "recorded.sqlite"), "--keep needs --record"),
        (("--keep", "P7D", "--record", "r", "--broker-logs", "."), "logs without --zookeeper do not grow"),
        (("--keep", "week", "--record", "r"), "'week' is not a duration such as P1D"),
        (("--keep", "PT59.9S", "--record", "r"), "--keep must be at least PT1M"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    arguments: tuple[str, ...], refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, arguments)
    assert (done.exit_code, refusal in " ".join(done.output.split())) == (2, True), done.output
    assert not (tmp_path / "r").exists()
