"""The table of the latency that interception adds, and the command itself."""

import pytest
from click.testing import CliRunner

from tests.bench.interception.__main__ import Latency, main, report


def test_the_added_latency_is_a_difference_of_medians() -> None:
    _, *lines = report([("Produce", {"no function": Latency(0.5, 1.0), "requests": Latency(0.75, 1.5)})])
    assert lines == [
        "Produce   no function               0.50 ms   +0.00 ms    1.00 ms   +0.00 ms",
        "Produce   requests                  0.75 ms   +0.25 ms    1.50 ms   +0.50 ms",
    ]


@pytest.mark.integration
def test_the_command_measures_three_ways_for_two_apis() -> None:
    done = CliRunner().invoke(main, ["--count", "2", "--rounds", "1"])
    assert done.exit_code == 0 and done.output.count(" ms\n") == 6, done.output
