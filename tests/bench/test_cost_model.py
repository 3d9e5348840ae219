"""The model of the control plane's costs predicts the counts that it was not fitted to."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.bench import cost_model
from tests.bench.compare.systems import OURS
from tests.bench.cost_model import COUNTED, TOLERANCE, Line, fit, main, predictions


def test_a_line_goes_through_its_points() -> None:
    line = fit({100: 30.0, 500: 110.0, 2_000: 410.0})
    assert line.unit == 1 and line.at(5_000) == pytest.approx(1_010)


def test_what_comes_in_steps_is_predicted_in_steps() -> None:
    """The cost is nine requests, plus three for each started thousand of partitions."""
    line = fit({100: 12.0, 500: 12.0, 1_200: 15.0, 2_000: 15.0}, "control_requests")
    assert (line.fixed, line.each) == pytest.approx((9, 3)) and line.unit == 1_000
    assert line.at(5_000) == pytest.approx(24)
    assert Line(1.0, 2.0, 250).at(251) == 5.0


@pytest.mark.slow
def test_what_is_written_and_sent_is_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prediction is for twice as many partitions as the fit has."""
    changes = {name: cost_model.CHANGES[name] for name in ("creation", "a clean stop")}
    monkeypatch.setattr(cost_model, "CHANGES", changes)
    predicted = predictions((50, 600, 1_100), 2_200, COUNTED)
    assert len(predicted) == len(changes) * len(COUNTED)
    assert [each for each in predicted if each.error > TOLERANCE] == []


def test_measured_seconds_are_predicted_from_the_smaller_numbers(tmp_path: Path) -> None:
    path = tmp_path / "compare.json"
    rounds = {str(size): [{"create_s": 0.1 + size / 1_000, "memory_mb": 250.0}] for size in (100, 2_000, 10_000)}
    path.write_text(json.dumps({"samples": {OURS: rounds, "another": {}}}))
    result = CliRunner().invoke(main, ["--measured", str(path)])
    assert result.exit_code == 0 and "predicted for 10,000" in result.output
    assert [line.split(" | ")[1] for line in result.output.splitlines()[2:]] == ["create s", "memory mb"]
    assert all("| 0% |" in line for line in result.output.splitlines()[2:])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"samples": {}}', '{"samples": {"kafka-zk": {"x": []}}}'])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "compare.json"
    path.write_text(content)
    result = CliRunner().invoke(main, ["--measured", str(path)])
    assert result.exit_code == 1 and str(path) in result.output and "Traceback" not in result.output


def test_one_number_of_partitions_makes_no_line() -> None:
    result = CliRunner().invoke(main, ["--fitted", "100", "--fitted", "100"])
    assert result.exit_code == 2 and "two numbers" in result.output
