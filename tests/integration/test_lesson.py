"""The lesson runs by itself, and what it says is true."""

import json

import pytest

from tests.integration.processes import kafka_zk

pytestmark = pytest.mark.integration
TIMEOUT_S = 300


def test_what_the_lesson_shows() -> None:
    """One of five is idle and takes over; two groups get everything each; what a cooperative group keeps goes on."""
    done = kafka_zk("lesson", "--json", timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    first, second, third = (report[f"chapter {number}"] for number in (1, 2, 3))
    assert first["idle"] not in (None, first["left"])
    assert first["shares_after"][first["idle"]] == 1 and sum(first["shares_after"].values()) == 4
    assert second["read"] == {"cats": 20, "dogs": 20}
    assert (third["eager"]["stopped"], third["eager"]["never_stopped"]) == (6, 0)
    assert (third["cooperative"]["stopped"], third["cooperative"]["never_stopped"]) == (2, 4)


def test_the_lesson_in_words() -> None:
    """Watches are told before they are passed on, and the lag is plotted."""
    done = kafka_zk("lesson", "--no-pause", "--chapter", "1", "--chapter", "3", timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert "is idle: a partition has one owner in a group" in done.stdout
    assert "the watch of anna on /consumers/class/ids fires (child)" in done.stdout
    assert "lag, eager" in done.stdout and "← ben is killed" in done.stdout
