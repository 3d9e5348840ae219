"""``kafka-zk extract-status`` after it has examined the cluster: output and exit codes."""

import json

import pytest

from kafka_zk.cli.main import run
from kafka_zk.cli.spark import extract_status
from kafka_zk.spark_jobs.extraction.status import GroupStatus, PartitionStatus, RunStatus

KNOWN = PartitionStatus("t", 0, 60, 100, 40, last_from=20, last_until=60)
UNKNOWN = PartitionStatus("t", 1, 5, None, None, problem="there is no leader")
RUN = RunStatus("range=t@20-60", "committed", "file:/lake", "parquet", 1_000, 5_000, 40)
ARGUMENTS = ["extract-status", "--group", "lake"]


def seen(monkeypatch: pytest.MonkeyPatch, status: GroupStatus) -> None:
    monkeypatch.setattr(extract_status, "_look", lambda *_: status)


@pytest.mark.parametrize(
    ("partitions", "max_lag", "code", "told"),
    [
        ((KNOWN,), "40", 0, ""),
        ((KNOWN,), "39", 3, "Error: the lag of group lake is 40, more than 39\n"),
        ((KNOWN, UNKNOWN), "39", 3, "the lag of group lake is 40, more than 39"),
        ((KNOWN, UNKNOWN), "40", 1, "the lag of 1 of 2 partitions is unknown, for example of t-1: there is no leader"),
    ],
)
def test_the_exit_code_judges_the_lag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], partitions: tuple[PartitionStatus, ...],
    max_lag: str, code: int, told: str,
) -> None:  # fmt: skip
    seen(monkeypatch, GroupStatus("lake", partitions))
    assert run([*ARGUMENTS, "--json", "--max-lag", max_lag]) == code
    out, err = capsys.readouterr()
    assert json.loads(out)["lag"] == 40
    assert told in " ".join(err.split()) + "\n"


def test_text_names_the_last_range_a_killed_run_and_what_is_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen(monkeypatch, GroupStatus("lake", (KNOWN, UNKNOWN), 0, RUN, RUN))
    assert run(ARGUMENTS) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == [
        "TOPIC", "PARTITION", "OFFSET", "END_OFFSET", "LAG", "LAST_FROM", "LAST_UNTIL"
    ]  # fmt: skip
    assert out.splitlines()[2].split() == ["t", "1", "5", "-", "-", "-", "-"]
    assert "committed 1970-01-01T00:00:05Z, 10 offsets/s" in out
    assert "unfinished (committed): range=t@20-60 of 40 offsets into file:/lake" in out
    assert "no live member: the next run finishes or drops it" in out
    assert out.splitlines()[-1] == "lag 40, not counting 1 of 2 partitions, whose lag is unknown"
    assert err == "t-1: there is no leader\n"


def test_metrics_have_no_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ARGUMENTS, "--metrics-port", "0", "--max-lag", "1"]) == 2
    assert "alert on the metric instead" in " ".join(capsys.readouterr().err.split())


def test_a_host_for_metrics_needs_their_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ARGUMENTS, "--metrics-host", "0.0.0.0"]) == 2
    assert "--metrics-host needs --metrics-port" in capsys.readouterr().err
