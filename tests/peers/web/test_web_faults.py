"""The page of one recording in a real Chromium: regression tests for misleading names and numbers, and for tabs that
hung."""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from os import environ
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import AssignmentCompleted
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.cluster_events import OperatorActed
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Transaction
from tests.peers.web.web_browser import PAGE, Page, until
from tests.terminal import Terminal

pytestmark = pytest.mark.peers

LONG = "x" * 246 + "end"
UUID = "{}0000000-0000-0000-0000-000000000000"
MEMBERS = [f"console-consumer-{UUID.format(each)}" for each in "ab"]
BROKER = b'{"version":4,"host":"h","port":9,"endpoints":["PLAINTEXT://h:9"],"timestamp":"1","jmx_port":-1,'
BROKER += b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"}}'
TOPIC = b'{"version":3,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[1]}'
TABS = 6
"""The number of connections that a browser opens to one server."""


def recorded(file: Path) -> None:
    """A broker, a topic with a name of maximum length, two groups, and an act of a person."""
    recording = Recording(file)
    created = {
        "/brokers/ids/1": BROKER, f"/brokers/topics/{LONG}": TOPIC, f"/brokers/topics/{LONG}/partitions/0/state": STATE,
        "/consumers/\u202eevil/ids/\u202eevil_m": b"{}", "/odd": b'{"a":1e999,"b":12345678901234567890,"c":[1, 2]}',
    }  # fmt: skip
    for zxid, (path, data) in enumerate(created.items(), 1):
        ephemeral = "/ids/" in path
        recording.add([], [Transaction(zxid, 1_000_000 * zxid, 7 + zxid, (Created(path, data, ephemeral),))])
    assigned = {member: (TopicPartition("t", number),) for number, member in enumerate(MEMBERS)}
    act = OperatorActed(7_000_000, "operator", "requested", 0, "produce", "t", "Records come")
    recording.add([Traced(AssignmentCompleted(6_000_000, "broker-1", "", 0, "g", 1, assigned), None, 123, 5), act], [])
    for time_ms, end in ((6_990_000, 5), (6_999_000, 1_200_000)):
        recording.samples.add(time_ms, {f"ends {LONG}": end, f"end {LONG}-0": end, "turns": 11, "sampled": end})
    recording.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Terminal, str]]:
    file = tmp_path_factory.mktemp("faults") / "faults.sqlite"
    recorded(file)
    with Terminal([sys.executable, "-m", "kafka_zk", "web", "--port", "0", str(file)], environ) as terminal:
        url = until(lambda: terminal.read_until("web page at") and PAGE.search(terminal.text), "its URL")
        yield terminal, url[1]


@pytest.fixture(scope="module")
def page(served: tuple[Terminal, str]) -> Iterator[Page]:
    with ExitStack() as closing:
        page = Page(served[1])
        closing.callback(page.close)
        until(lambda: page.count("#view tr.topic"), "the topics")
        yield page


def test_names_are_told_apart_and_none_hides_or_passes_as_another(page: Page) -> None:
    boxes = page.text("#view svg text[font-weight='600']")
    assert "-a000" in boxes and "-b000" in boxes, "two members with one beginning"
    assert "\\u202eevil" in page.text("#view") and "\u202e" not in page.text("body")
    wide = "return document.querySelector('#view .wide th.number').getBoundingClientRect().right"
    assert page.driver.execute_script(wide) < page.driver.execute_script("return innerWidth"), "the last column"
    assert page.text("#view tr.topic").count("x") < 40 and "end" in page.text("#view tr.topic")
    page.show_all_time()
    until(lambda: "records/s" in page.text("#timeline .measure"), "the rate beside the topic's name")
    until(lambda: page.driver.execute_script(_OVERLAP) == [], "labels that cover no rate")


_OVERLAP = """
    return [...document.querySelectorAll("#timeline .measure")].filter((each) => each.textContent).filter((each) => {
        const rate = each.getBoundingClientRect();
        return [...document.querySelectorAll("#timeline .fold text")].map((other) => other.getBoundingClientRect())
            .some((name) => Math.abs(name.top - rate.top) < 8 && name.right > rate.left);
    }).map((each) => each.textContent);
"""


def test_times_have_a_date_and_a_zone_and_numbers_an_age(page: Page) -> None:
    assert re.match(r"1970-01-01 \d\d:\d\d:\d\d\.000 UTC[+−]\d\d:\d\d · 7 of 7", page.text("#moment"))
    assert page.text("#view .wide th.number").endswith("up to 11 s old")
    until(lambda: page.count("#timeline [data-lane='broker-1']"), "the broker's lane")
    page.press("#timeline [data-lane='broker-1']", -1)
    until(lambda: "123 UTC" in page.text("#details") and "its event 5" in page.text("#details"), "its microsecond")
    until(lambda: page.count("#timeline [data-mark]"), "the marks")
    page.press("#timeline [data-mark]", 0)
    until(lambda: "A person did this" in page.text("#details"), "that a person is a cause")
    page.press("#back")


def test_a_znodes_numbers_stay_as_they_were_written_and_copying_changes_no_view(page: Page) -> None:
    page.press("#view-tree")
    until(lambda: page.count("#view [data-path='/odd']"), "the znodes")
    page.press("#view [data-path='/odd'] button.znode")
    until(lambda: '"a": 1e999' in page.text("#details pre"), "a number beyond JavaScript's")
    assert '"b": 12345678901234567890' in page.text("#details pre") and '"c": [1, 2]' in page.text("#details pre")
    ActionChains(page.driver).key_down(Keys.CONTROL).send_keys("c").key_up(Keys.CONTROL).perform()
    page.press("#back")
    assert page.count("#view-tree[aria-pressed=true]") == 1
    page.press("#view-cluster")
    until(lambda: page.count("#view tr.topic"), "the cluster again")


def test_colours_last_and_every_tab_is_served_and_a_dead_recorder_is_told(
    served: tuple[Terminal, str], page: Page
) -> None:
    terminal, url = served
    colours = (
        "return [...document.querySelectorAll('#view svg rect[rx=\"3\"]')].map((each) => each.getAttribute('fill'))"
    )
    before = page.driver.execute_script(colours)
    page.type("#filter", "b000")
    page.driver.refresh()
    until(lambda: page.count("#view tr.topic"), "the page again")
    assert page.driver.execute_script(colours) == before and len(set(before)) > 2
    first = page.driver.current_window_handle
    for number in range(1, TABS):
        page.driver.switch_to.new_window("tab")
        page.driver.get(url)
        until(partial(page.count, "#view tr.topic"), f"tab {number + 1}")
    assert page.errors() == []
    terminal.process.kill()
    until(lambda: "does not respond" in page.text("#problem"), "that the recorder is dead")
    assert "nothing else can be shown" in page.text("#problem")
    page.driver.switch_to.window(first)
    assert "does not respond" in page.text("#problem"), "in each tab"
