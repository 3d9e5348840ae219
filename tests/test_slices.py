"""Which tests ``.ci/run`` leaves out."""

from pathlib import Path

import pytest

from tests.kafka_zk.testing.runs import run_pytest

pytestmark = pytest.mark.integration

TESTS = """
import pytest

@pytest.mark.weekly
def test_dear():
    pass

@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", range(5))
def test_many(number):
    pass

@pytest.mark.parametrize("broker", ["kafka-zk", "apache-kafka"])
def test_both(broker):
    pass
"""
NAMES = {
    "test_dear", "test_both[kafka-zk]", "test_both[apache-kafka]", "test_many[0]", "test_many[1]", "test_many[2]",
    "test_many[3]", "test_many[4]",
}  # fmt: skip


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ([], NAMES),
        (["--slice"], {"test_many[0]", "test_many[3]", "test_both[kafka-zk]"}),
        (["--slice", "-k", "1 or 2 or 4"], {"test_many[1]"}),  # of the selected tests
    ],
)
def test_a_slice_leaves_out_what_runs_weekly(chosen: list[str], left: set[str], tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    shown = run_pytest(tmp_path, "-W", "ignore", "-p", "tests.slices", "--collect-only", "-q", *chosen)
    assert {line.partition("::")[2] for line in shown.splitlines() if "::" in line} == left, shown
