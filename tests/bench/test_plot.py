"""The plot: one bar for each ratio, on one scale, and well-formed."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from tests.bench import plot

_SVG = "{http://www.w3.org/2000/svg}"


def _row(title: str, throughput: float | None, cpu: float, kind: str = "throughput") -> dict[str, Any]:
    figures = [
        {"name": "throughput", "ratio": throughput, "ratio_range": throughput and [throughput - 0.1, throughput + 0.1]},
        {"name": "broker CPU", "ratio": cpu, "ratio_range": None},
        {"name": "p99 latency", "ratio": 0.5, "ratio_range": None},
    ]
    return {"title": title, "kind": kind, "figures": figures}


def _drawn(*rows: dict[str, Any]) -> ElementTree.Element:
    result = {"workloads": {str(number): row for number, row in enumerate(rows)}}
    return ElementTree.fromstring(plot.svg(plot.rows_of(result), "a < b"))


def _bars(picture: ElementTree.Element) -> list[float]:
    return [float(each.get("width", "0")) for each in picture.iter(f"{_SVG}rect") if each.get("height") == "12"][2:]


def test_a_bar_is_as_long_as_its_ratio() -> None:
    one, half = _bars(_drawn(_row("produce", 1.0, 0.5)))
    assert half > 0
    assert one == pytest.approx(2 * half, abs=0.2)  # widths are rounded to a tenth of a pixel


def test_rows_without_a_ratio_and_latencies_are_left_out() -> None:
    assert len(_bars(_drawn(_row("produce", None, 0.5), _row("end to end", 1.0, 1.0, kind="latency")))) == 1


def test_titles_and_numbers_are_there() -> None:
    texts = [each.text for each in _drawn(_row("consume & more", 1.25, 0.5)).iter(f"{_SVG}text")]
    assert {"a < b", "consume & more", "1.25", "0.50", "1 = Apache Kafka"} <= set(texts)
