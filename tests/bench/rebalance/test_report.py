"""The output, the JSON and the plot of the rebalance bench."""

from __future__ import annotations

import io
import json
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tests.bench.rebalance import plot, report, zookeeper_counters
from tests.bench.rebalance.changes import Sample
from tests.bench.rebalance.deliveries import Change
from tests.bench.rebalance.herd import Herd
from tests.bench.rebalance.methods import METHODS

_SVG = "{http://www.w3.org/2000/svg}"


def _sample(kind: str, round_number: int, settled_ms: float) -> Sample:
    change = Change(settled_ms, frozenset({1}), frozenset(), frozenset({0}), {0: 30.0, 1: 400.0}, {0: 20.0, 1: 20.0}, 0)
    return Sample("scala-range", 2, kind, round_number, change)


def _herd(method: str, members: int, requests: int, expired: int = 0) -> Herd:
    return Herd(method, members, 12, requests, 5, 1, 0.1, 12, expired)


def test_rows_are_medians_in_the_order_of_events() -> None:
    """Three rounds of each kind make one row."""
    found = [_sample(kind, number, ms) for number, ms in enumerate((100, 300, 200)) for kind in ("join", "leave")]
    out = io.StringIO()
    report.print_changes(Console(file=out, width=160), found)
    rows = [line.split("│")[3:8] for line in out.getvalue().splitlines() if METHODS["scala-range"].title in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["join", "200", "1", "400", "30"],
        ["leave", "200", "1", "400", "30"],
    ]


def test_json_holds_every_change_and_join() -> None:
    """Sets become lists, and the silence of each partition is included."""
    document = json.loads(json.dumps(report.as_json({"commit": "x"}, [_sample("kill", 0, 5)], [_herd("a", 3, 10)])))
    assert document["changes"][0]["change"]["moved"] == [1]
    assert document["changes"][0]["change"]["silence_ms"] == {"0": 30.0, "1": 400.0}
    assert document["joins"][0]["requests"] == 10


def test_the_plot_has_a_line_for_each_kind_of_group() -> None:
    """More requests are drawn higher, the legend names both kinds, and a join with expired sessions is left out."""
    herds = [_herd(name, members, members * factor) for name, factor in (("a", 1), ("b", 100)) for members in (3, 100)]
    disturbed = _herd("a", 10, 10**6, expired=3)
    svg = ElementTree.fromstring(plot.herd_svg([*herds, disturbed], {"a": "kind <a>", "b": "kind b"}))
    heights = [float(circle.attrib["cy"]) for circle in svg.iter(f"{_SVG}circle")]
    assert len(heights) == 4
    assert min(heights[:2]) > max(heights[2:])
    assert {"kind <a>", "kind b", "12 partitions"} <= {text.text for text in svg.iter(f"{_SVG}text")}


def test_counters_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not allow mntr responds with a sentence."""
    monkeypatch.setattr(zookeeper_counters, "four_letter_word", lambda word, port: "mntr is not executed because ...")
    with pytest.raises(zookeeper_counters.CountersRefused, match="zk_prep_processor_request_queued"):
        zookeeper_counters.read(1)
