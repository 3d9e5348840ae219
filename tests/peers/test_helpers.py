"""The peer tests' own parsers, without any peer: they run in `make test`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.peers import foreign_programs, perf, requirements, tool_list
from tests.peers.clients.kcat import KcatConsumer
from tests.peers.records import Record, anything, common_headers_lines, differences, lines

_PERF_OUTPUT = """\
5 records sent, 1.0 records/sec (0.00 MB/sec), 1.0 ms avg latency, 2.0 ms max latency.
2000 records sent, 7215.007215 records/sec (6.88 MB/sec), 41.07 ms avg latency, 257.00 ms max latency, \
5 ms 50th, 211 ms 95th, 233 ms 99th, 257 ms 99.9th.
"""


def test_perf_summary_is_the_line_with_percentiles() -> None:
    """Progress lines are not a summary."""
    assert perf.summary(_PERF_OUTPUT) == perf.Summary(2000, 7215.007215, 41.07, 5, 233, 257)


def test_perf_output_without_summary_is_an_error() -> None:
    """A tool that printed only warnings has not measured anything."""
    with pytest.raises(ValueError, match="no summary"):
        perf.summary("WARN something\n")


def test_kcat_output_is_read_by_length() -> None:
    """Keys and values may contain any byte, including the separators; -1 is null."""
    end = b"\x1e--end of record--\x1e"
    output = b"7 1000 -1 3 a \nh=1" + end + b"8 1001 0 -1 " + end
    assert KcatConsumer._parse(output) == [
        Record(None, b"a \n", (("shown", b"h=1"),), 1000, 7),
        Record(b"", None, (("shown", b""),), 1001, 8),
    ]


def test_missing_programs_are_all_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One sentence names all missing programs, so that the user can install them together."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(foreign_programs, "go", lambda: "go")
    assert shutil.which("java") is None
    with pytest.raises(requirements.MissingPeerTools, match=r"java .*javac.*mvn.*kcat.*go .*node.*npm"):
        requirements.require(kcat=True, foreign=True)


def test_differences_names_the_first_one() -> None:
    """Equal sequences give an empty text."""
    assert differences([1, 2], [1, 2]) == ""
    assert differences([1, 2], [1, 3]) == "record 1: expected 2, found 3"
    assert differences([1, 2], [1]) == "expected 2 records, found 1"


def test_data_sets_are_the_same_in_every_run() -> None:
    """Both targets and all clients get the same bytes."""
    assert anything() == anything()
    assert all(record.timestamp_ms for record in anything())
    assert all(b"\n" not in (record.value or b"") for record in [*lines(), *common_headers_lines()])


def test_the_readme_counts_the_runs_of_tools() -> None:
    assert tool_list.table() in (Path(__file__).parent / "README.md").read_text()
