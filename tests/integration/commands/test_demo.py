"""The demo on the real input, and its error when its cluster breaks."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from kafka_zk.learn.demo.flights import count_flights, find_flights
from tests.integration.processes import ENVIRON, kafka_zk, running, start, wait_for, wait_for_end

pytestmark = pytest.mark.integration
TIMEOUT_S = 1200
PAGE = re.compile(r"what happens is shown at (http://127\.0\.0\.1:\d+/\S*)")


@pytest.mark.long
def test_all_rows_come_back_and_a_kept_cluster_is_stopped_by_one_signal(tmp_path: Path) -> None:
    done = kafka_zk("demo", "--keep", "--json", "--data", tmp_path, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    pids = [report["kept_pid"], *report["pids"].values()]
    try:
        assert all(running(pid) for pid in pids)
        listed = kafka_zk("topics", "list", "--bootstrap-server", report["bootstrap"])
        assert listed.stdout == "__consumer_offsets\nflights\n", listed.stderr
    finally:
        os.kill(report["kept_pid"], signal.SIGTERM)
    wait_for_end(*pids)
    _check(report)


def _check(report: dict[str, Any]) -> None:
    assert report["ok"]
    assert report["records"] == count_flights(find_flights()) == 336_776
    assert sum(report["carriers"].values()) == report["records"]
    assert len(report["partitions"]) == 8
    assert len({partition["leader"] for partition in report["partitions"]}) >= 2, "fewer than two brokers lead"
    assert 0 < report["failover"]["elected_seconds"] < report["failover"]["whole_seconds"]
    assert {node["path"] for node in report["znodes"]} >= {"/controller", "/brokers/ids/2", "/brokers/topics/flights"}
    causes = "; ".join(cause for each in report["rebalances"] for cause in each["causes"])
    assert "counters_dora came" in causes and "counters_ben" in causes, "a join or a kill is missing in the rebalances"
    first, second = report["extractions"]
    assert first["carriers"] == report["carriers"], "the files and the input have different counts"
    assert (first["records"], second["records"]) == (336_776, sum(second["carriers"].values())) == (336_776, 1_000)
    assert (second["lag_before"], second["lag_after"]) == (1_000, 0)
    ends = [each["until_offset"] for each in first["partitions"]]
    starts = [each["from_offset"] for each in second["partitions"]]
    assert starts == ends, "the second range does not begin at the end of the first one"
    assert second["spark_start_seconds"] == 0 < report["spark_start"]["seconds"], "Spark started twice"
    assert list(report["step_seconds"]) == ["1", "2", "3", "4", "5", "6"]


def test_a_broker_that_dies_fails_the_demo_with_one_sentence() -> None:
    process = start("demo")
    assert process.stdout
    pids = []
    try:
        for line in process.stdout:
            if "started, pid" in line:
                pids.append(int(line.split("pid ")[1].split(",")[0]))
            if line.startswith("2."):
                break
        os.kill(pids[1], signal.SIGKILL)
        output, errors = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 1, output
    assert errors.startswith("Error: broker 1 ended with signal SIGKILL")
    assert errors.count("\n") == 1
    wait_for_end(*pids)


def test_it_is_seen_in_a_browser_as_it_happens(tmp_path: Path) -> None:
    """The page shows the brokers, the topic, and why a leader dies; Ctrl-C ends everything."""
    process = start("demo", "--web", "0", "--data", tmp_path)
    assert process.stdout
    try:
        address = next(found for line in process.stdout if (found := PAGE.search(line)))[1]
        wait_for(lambda: _asked(address, "state")["cluster"]["topics"], "the topic on the page")
        assert [each["id"] for each in _asked(address, "state")["cluster"]["brokers"]] == [0, 1, 2]
        killed = wait_for(lambda: _told(address, "kill broker"), "that the demo killed a broker")
        assert "Expect: Its session is closed at once" in killed[0]
        wait_for(lambda: _told(address, "lost its session"), "the failover")
    finally:
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=TIMEOUT_S)[1]
    assert (process.returncode, "Traceback" in errors) == (130, False), errors
    with pytest.raises(OSError):
        _asked(address, "state")


@pytest.mark.soak
def test_its_page_stays_until_somebody_has_seen_enough(tmp_path: Path) -> None:
    """The page also shows the members' watches, claims and sessions."""
    process = start("demo", "--web", "0", "--data", tmp_path)
    assert process.stdout
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if "stay until Ctrl-C" in line:
                break
        found = PAGE.search("".join(said))
        assert found is not None, "".join(said)
        assert _told(found[1], "anna") and _told(found[1], "lost its session")
        lasts_ms = {"from_ms": 0, "to_ms": 10**17}
        spans = _asked(found[1], "spans", open="owner counters: flights-", **lasts_ms)["spans"]
        assert any(each[0] == "owner" for each in spans)
        everything = _asked(found[1], "entries", **lasts_ms)
        actors = {each[0] for each in everything.get("buckets", ())}
        actors |= {each["actor"] for each in everything.get("entries", ())}
        assert {"counters_anna", "counters_dora"} <= actors
    finally:
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=TIMEOUT_S)[1]
    assert (process.returncode, errors) == (0, ""), errors


def test_a_page_that_stays_and_a_cluster_that_stays_are_one_too_many() -> None:
    done = kafka_zk("demo", "--web", "--keep")
    assert (done.returncode, "cannot be combined" in done.stderr) == (2, True)


def _asked(address: str, question: str, **values: object) -> Any:
    """The data that the page at this address would request."""
    place, _, token = address.partition("#token=")
    with urlopen(f"{place}api-{question}?{urlencode({**values, 'token': token})}", timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def _told(address: str, text: str) -> list[str]:
    """The episodes so far whose sentence contains ``text``."""
    told = _asked(address, "episodes", from_ms=0, to_ms=10**17)["episodes"]
    return [each["text"] for each in told if text in each["text"]]


@pytest.mark.soak
def test_nothing_stays_of_a_demo_that_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRON, "TMPDIR", str(tmp_path))
    done = kafka_zk("demo", "--json", timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert not any(running(pid) for pid in json.loads(done.stdout)["pids"].values())
    assert list(tmp_path.glob("kafka-zk-demo-*")) == []
