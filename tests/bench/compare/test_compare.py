"""The comparison of three systems: gaps, counts, medians, targets and plots are right, without a run."""

import json
import uuid
from collections.abc import Sequence
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.dom import minidom

import pytest
from rich.console import Console

from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.bench import machine
from tests.bench.compare import __main__ as command
from tests.bench.compare.__main__ import QUICK_SIZES, Comparison, steps_for
from tests.bench.compare.judged import TARGETS, median, verdicts
from tests.bench.compare.life import LOADED, loaded
from tests.bench.compare.load import Gaps, MetadataRequests
from tests.bench.compare.record import CannotResume, Record, measured
from tests.bench.compare.sent import in_log, in_metrics, since
from tests.bench.compare.shown import number, ratio, svg, tables
from tests.bench.compare.systems import KRAFT, NAMES, ON_ZOOKEEPER, OURS, SYSTEMS
from tests.bench.compare.written import Written, is_no_op, of_kraft, packets_in

SAMPLES = {
    ON_ZOOKEEPER: {100: [{"start_s": 8.0, "create_s": 2.0}], 2000: [{"create_s": 30.0}, {"create_s": 20.0}]},
    KRAFT: {100: [{"start_s": 10.0}], 2000: [{"create_s": 10.0}]},
    OURS: {
        100: [{"start_s": 2.0, "create_s": 0.2, "rolling_gap_s": 0.7}],
        2000: [{"create_s": 3.0, "stop_gap_s": 0.2, "kill_beyond_s": 0.0}, {"create_s": 2.0, "stop_gap_s": 0.3}],
    },
}


def verdict(title: str, partitions: int, other: str | None) -> tuple[float | None, str]:
    (found,) = [each for each in verdicts(SAMPLES)
                if (each.target.title, each.partitions, each.target.other) == (title, partitions, other)]  # fmt: skip
    return found.found, found.text


def test_the_median_is_of_the_rounds_that_have_the_figure() -> None:
    assert median(SAMPLES, ON_ZOOKEEPER, 2000, "create_s") == 25
    assert median(SAMPLES, OURS, 2000, "kill_beyond_s") == 0
    assert median(SAMPLES, KRAFT, 2000, "stop_gap_s") is None
    assert median(SAMPLES, OURS, 5000, "create_s") is None


def test_targets_are_ratios_of_medians_or_limits() -> None:
    assert verdict("creation until usable", 2000, ON_ZOOKEEPER) == (0.1, "met")
    assert verdict("creation until usable", 2000, KRAFT) == (0.25, "MISSED")
    assert verdict("clean stop, produce gap", 2000, None) == (0.25, "met")
    assert verdict("start", 100, ON_ZOOKEEPER) == (0.25, "met")
    assert verdict("rolling restart, longest gap", 100, None) == (0.7, "MISSED")


def test_what_was_not_measured_is_not_judged() -> None:
    assert verdict("failover, beyond the session's end", 2000, ON_ZOOKEEPER) == (None, "not measured")
    assert verdict("start", 2000, KRAFT) == (None, "not measured")
    assert verdict("failover, beyond the session's end", 10_000, None) == (None, "not measured")


def test_every_target_is_about_a_figure_that_is_shown() -> None:
    from tests.bench.compare.shown import PLOTTED, ROWS

    shown = {row.figure for row in ROWS}
    assert {target.figure for target in TARGETS} <= shown
    assert set(PLOTTED) <= shown


@pytest.mark.parametrize("count", [1, LOADED - 1, LOADED, LOADED + 1, 2 * LOADED - 1, 100, 2_000])
def test_loaded_partitions_are_from_all_parts_of_the_topic(count: int) -> None:
    """Brokers take partitions over in their order, so the first ones are without a leader for a shorter time than the
    last.
    """
    chosen = loaded(range(100, 100 + count))
    steps = [after - before for before, after in pairwise(chosen)]
    assert chosen[0] == 100 and len(set(chosen)) == min(count, LOADED)
    assert chosen[-1] + count / LOADED >= 99 + count
    assert not steps or max(steps) - min(steps) <= 1


def test_a_gap_is_the_longest_time_of_one_partition_without_an_acknowledgement() -> None:
    gaps = Gaps([0, 1], 10.0)
    gaps.acknowledged(0, 10.5)
    gaps.acknowledged(1, 12.0)
    gaps.acknowledged(0, 12.0)
    assert gaps.taken(12.1) == 2.0
    assert gaps.taken(12.5) == pytest.approx(0.5), "a gap that was returned counts again"
    gaps.acknowledged(0, 13.0)
    assert gaps.taken(20.0) == 8.0, "the gap of partition 1 was forgotten"
    gaps.acknowledged(1, 21.0)
    assert gaps.taken(21.0) == 9.0, "the gap did not begin before the last call"


def test_metadata_requests_are_those_of_all_brokers_since_the_last_question() -> None:
    requests = MetadataRequests()
    requests.counted('{"brokers": {"a": {"req": {"Metadata": 2, "Produce": 9}}, "b": {"req": {}}}}')
    assert (requests.taken(), requests.taken()) == (2, 0)
    requests.counted('{"brokers": {"a": {"req": {"Metadata": 3}}, "b": {"req": {"Metadata": 1}}}}')
    assert requests.taken() == 2


def test_records_of_the_metadata_log_are_counted_but_for_those_that_pass_time(tmp_path: Path) -> None:
    changes, idle = RecordBatchBuilder(), RecordBatchBuilder()
    for value in (b"\x01\x02\x00", b"\x01\x03\x00", b"\x01\x14\x00"):
        changes.append(0, None, value)
    idle.append(0, None, b"\x01\x14\x00")
    batches = [bytes(changes.build()), bytes(idle.build())]
    (tmp_path / "00000000000000000000.log").write_bytes(b"".join(batches))
    assert of_kraft(tmp_path) == Written(1, 2, len(batches[0]), None)
    assert is_no_op(b"\x01\x14\x00") and not is_no_op(b"\x01\x15\x00")


def test_what_came_in_between() -> None:
    assert Written(5, 9, None, 40).since(Written(2, 3, None, 10)) == Written(3, 6, None, 30)


def test_control_requests_are_counted_where_they_arrive() -> None:
    log = (
        "[2026-11-23] INFO [Broker id=0] Finished LeaderAndIsr request in 8ms correlationId 5 from controller 1\n"
        "[2026-11-23] INFO [Broker id=0] Add 17 partitions and deleted 0 partitions from metadata cache in response to"
        " UpdateMetadata request sent by controller 1 epoch 4 with correlation id 6 (state.change.logger)\n"
        "[2026-11-23] INFO [Broker id=0] Handling LeaderAndIsr request correlationId 5 from controller 1\n"
    )
    assert in_log(log) == 2
    metrics = (
        "# TYPE kafka_network_requestmetrics_requests_total counter\n"
        'kafka_network_requestmetrics_requests_total{request="LeaderAndIsr",version="7"} 3.0\n'
        'kafka_network_requestmetrics_requests_total{request="UpdateMetadata",version="8"} 4.0\n'
        'kafka_network_requestmetrics_requests_total{request="Metadata",version="8"} 9.0\n'
    )
    assert in_metrics(metrics) == 7
    assert since({0: 5, 2: 4}, {0: 3, 1: 9, 2: 4}) == 2, "a dead broker was counted"


def test_packets_are_read_from_what_zookeeper_says() -> None:
    assert packets_in("zk_version\t3.8.4\nzk_packets_received\t1234\nzk_packets_sent\t9\n") == 1234
    assert packets_in("zk_packets_received\t12.0\n") == 12
    with pytest.raises(ValueError, match="how many packets"):
        packets_in("This ZooKeeper instance is not currently serving requests")


def test_tables_and_plots_have_all_that_was_found() -> None:
    console = Console(width=200, record=True, file=StringIO())
    for table in tables(SAMPLES, verdicts(SAMPLES)):
        console.print(table)
    text = console.export_text()
    assert "100 partitions" in text and "2,000 partitions" in text and "MISSED" in text
    picture = svg(SAMPLES, f"three <systems> {uuid.UUID(int=0)}")
    assert minidom.parseString(picture).documentElement
    assert picture.count("<polyline") >= len(NAMES)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0, "0"), (0.123456, "0.123"), (12.34, "12.3"), (1234.5, "1,234")]
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_ratio_needs_both() -> None:
    assert (ratio(1.0, 2.0), ratio(None, 2.0), ratio(1.0, None), ratio(1.0, 0.0)) == ("0.50", "–", "–", "–")


def test_a_quick_run_restarts_all_brokers_with_few_partitions_only() -> None:
    few, many = QUICK_SIZES
    assert "rolling" in steps_for(few, quick=True) and "rolling" not in steps_for(many, quick=True)
    assert "rolling" in steps_for(many, quick=False)


def test_with_very_many_partitions_only_failovers_are_measured() -> None:
    assert "kill" in steps_for(10_000, quick=False) and not {"rolling", "stop"} & {*steps_for(10_000, quick=False)}


def kept(path: Path | None = None, product: str = "aaa") -> Record:
    made = Record({"rounds": 2, "measured": {"product": product}}, path)
    for name, by_size in SAMPLES.items():
        for size, rounds in by_size.items():
            for figures in rounds:
                made.add(name, size, figures)
    return made


def test_the_json_has_every_figure_and_every_target() -> None:
    written = json.loads(json.dumps(kept().as_json()))
    assert written["samples"][OURS]["100"][0]["start_s"] == 2.0
    start = {"target": "start", "partitions": 100, "wanted": "≤ 0.3 of kafka-4.3-kraft", "found": 0.2, "verdict": "met"}
    assert start in written["targets"]


def test_an_interrupted_comparison_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "compare.json"
    before = kept(path)
    before.add(KRAFT, 2000, {"create_s": 9.0}, "TimeoutError: no leader")
    resumed = Record.resumed({"rounds": 5, "measured": {"product": "aaa"}}, path)
    assert resumed.samples == before.samples
    assert resumed.rounds(KRAFT, 2000) == 2 and resumed.rounds(OURS, 5000) == 0
    assert resumed.as_json() == before.as_json()
    assert resumed.failures == [{"system": KRAFT, "partitions": 2000, "round": 2, "what": "TimeoutError: no leader"}]
    assert Record.resumed({"measured": {}}, tmp_path / "none.json").samples == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"samples": {}}'])
def test_what_is_no_record_is_not_gone_on_with(tmp_path: Path, text: str) -> None:
    path = tmp_path / "compare.json"
    path.write_text(text)
    with pytest.raises(CannotResume, match=f"{path} is not the record of a comparison"):
        Record.resumed({"measured": {}}, path)


def test_figures_of_another_product_are_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "compare.json"
    kept(path)
    with pytest.raises(CannotResume, match=r"other product \(aaa; now bbb\)"):
        Record.resumed({"measured": {"product": "bbb"}}, path)


def test_a_quick_run_is_not_the_first_round_of_a_full_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick run lacks steps."""
    described = {"processor": "p", "usable_cores": [0, 1], "memory_bytes": 1, "python": "3", "java": "17"}
    monkeypatch.setattr(machine, "describe", lambda: described)
    path = tmp_path / "compare.json"
    quick, full = ({"measured": measured(None, {2000: steps_for(2000, quick=is_quick)})} for is_quick in (True, False))
    Record(quick, path).add(OURS, 2000, {"start_s": 1.0})
    with pytest.raises(CannotResume, match="other steps"):
        Record.resumed(full, path)
    assert Record.resumed(quick, path).rounds(OURS, 2000) == 1


class _Life:
    """Replaces a life, and fails at the steps of KRaft."""

    def __init__(self, system: Any, partitions: int, steps: Sequence[str]) -> None:
        self._system = system
        self.figures = {"start_s": 1.0}

    def run(self) -> None:
        if self._system.name == KRAFT:
            raise TimeoutError("no leader")
        self.figures["create_s"] = 2.0


def test_a_system_that_fails_does_not_keep_the_others_from_their_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "Life", _Life)
    made = Record({}, tmp_path / "compare.json")
    made.add(OURS, 100, {"start_s": 5.0})
    comparison = Comparison(tmp_path, NAMES, None, made, lambda text: None)
    for each in range(2):
        comparison.round(each, 100, steps_for(100, quick=True))
    whole = {"start_s": 1.0, "create_s": 2.0}
    assert made.samples[ON_ZOOKEEPER][100] == [whole, whole]
    assert made.samples[KRAFT][100] == [{"start_s": 1.0}, {"start_s": 1.0}]
    assert made.samples[OURS][100] == [{"start_s": 5.0}, whole], "the first round was not kept"
    assert [failure["round"] for failure in made.failures] == [1, 2]


def test_each_system_has_its_own_folder_and_ports(tmp_path: Path) -> None:
    made = [SYSTEMS[name](tmp_path / name) for name in NAMES]
    assert [system.name for system in made] == list(NAMES)
    assert len({port for system in made for port in system.ports}) == 3 * len(NAMES)
