"""An exported page in a real Chromium, from a file and inside another page: it needs no server, and shows the same as
the live page."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from selenium.webdriver.common.keys import Keys

from kafka_zk.broker.controller.events import RequestSent
from kafka_zk.cli.cluster.web_recordings import export_page
from kafka_zk.recorder.recording.entries import SESSION_ENDED
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import WatchFired
from tests.kafka_zk.recorder.page_export.questions import questions
from tests.kafka_zk.recorder.web.large_cluster import VICTIM, large_cluster
from tests.peers.web.web_browser import TIMEOUT_S, Page, until

pytestmark = pytest.mark.peers

MOMENTS, SEED = 20, 49  # test_page_data.py tests more of it, in Node
BROKERS, TOPICS, PARTITIONS = VICTIM + 2, 3, 14


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a cluster in which a broker died, with the controller's report of that, and samples."""
    file = tmp_path_factory.mktemp("export") / "outage.sqlite"
    recording = Recording(file)
    recording.add([], large_cluster(BROKERS, TOPICS, PARTITIONS))
    entries = recording.entries.numbered(1, recording.entries.count, 10_000)
    at_ms = next(each.time_ms for each in entries if each.kind == SESSION_ENDED)
    fired = WatchFired(at_ms, "controller-0", "child", 0, "/brokers/ids", EventType.CHILD)
    sent = RequestSent(at_ms + 1, "controller-0", "broker change", 0, 1, "UPDATE_METADATA")
    recording.add([Traced(fired, None, 412, 1), Traced(sent, None, 38, 2)], [])
    first_ms, last_ms = recording.entries.times() or (0, 0)
    for number, time_ms in enumerate(range(first_ms, last_ms, 5)):
        silent = {"heard 0x3f9": number % 2, "zookeeper connections zk1:2181": number % 3}
        known = {"ends topic-00": 7 * number, "end topic-00-1": number, "lag group-0: topic-00": number % 4 or None}
        recording.samples.add(time_ms, {"sampled": number, "turns": 1 + number % 2, **known, **silent})
    recording.close()
    return file


@pytest.fixture(scope="module")
def folder(recorded: Path) -> Path:
    """A folder with the page, and another one that embeds it."""
    exported = export_page(str(recorded), recorded.parent / "outage")
    (recorded.parent / "slides.html").write_text(f"<!doctype html><link rel='icon' href='data:,'>{exported.iframe}")
    return recorded.parent


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Page]:
    page = Page(f"file://{folder}/outage/index.html")
    try:
        until(lambda: page.count("#view [data-broker-box]") == BROKERS, "the cluster")
        yield page
    finally:
        page.close()


def test_it_answers_as_the_live_page_at_random_moments(page: Page, recorded: Path) -> None:
    recording = Recording(recorded, read_only=True)
    asked = questions(recording, MOMENTS, SEED)
    recording.close()
    page.driver.set_script_timeout(TIMEOUT_S)
    assert page.driver.execute_async_script(_DIFFERENT, asked) == []


_DIFFERENT = """
    const [asked, done] = arguments, { ask } = modules["data.js"].source();
    const answer = (name, values) => ask(name, values).catch((error) => ({ error: error.message }));
    (async () => {
        const different = [];
        for (const [name, values, expected] of asked) {
            const found = JSON.stringify(await answer(name, values));
            if (found !== JSON.stringify(JSON.parse(expected))) different.push([name, values, found, expected]);
        }
        done(different.slice(0, 3));
    })();
"""


def test_it_winds_back_and_names_causes_without_a_server(page: Page) -> None:
    """The browser lists every loaded and every blocked resource; there must be none."""
    assert page.count("#export:not([hidden])") == 0, "a page without a server saves no recording"
    until(lambda: f"broker {VICTIM} lost its session" in page.text("#happened"), "the episode")
    page.press("#happened [data-episode]", 0)
    until(lambda: page.text("#details h2"), "its first event")
    page.press("#effect")
    until(lambda: page.count("#details ol.chain li:not(.perhaps)"), "a cause that is certain")
    page.press("#cause")
    address = str(page.driver.execute_script("return location.href"))
    assert "#view=cluster&seq=" in address, "the address names the moment"
    moment = page.text("#moment")
    page.wind(0.3)
    until(lambda: page.text("#moment") != moment and f"✗ {VICTIM}" not in page.text("#view svg"), "the time before")
    page.press("#view-tree")
    until(lambda: page.count(f"#view tr[data-path='/brokers/ids/{VICTIM}']"), "the znode that was there then")
    page.driver.get(address)  # the addresses of an open page differ only after the #
    until(lambda: page.text("#moment") == moment, "the moment of the address")
    assert page.driver.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)") == []
    assert page.errors() == []


def test_strategies_are_shown_one_above_the_other(page: Page) -> None:
    """The page shows the same change with each strategy, and a conclusion; the reader chooses both strategies."""
    page.press("#view-strategies")
    until(lambda: page.count("#view section.strategy") == 5, "all strategies")
    page.press("[data-change=slow]")
    until(lambda: "while ben" in page.text("[data-change][aria-pressed=true]"), "the other change")
    assert page.text("#view .headline").startswith("A member that stays is silent for up to")
    assert page.count("#view section.strategy svg .quiet") and page.count("#view section.strategy svg .busy") == 5
    page.press("#view .choices input", 0)
    until(lambda: page.count("#view section.strategy") == 4, "the others")
    page.press("#view .choices input", 0)
    page.press("#view-cluster")
    until(lambda: page.count("#view [data-broker-box]") == BROKERS, "the cluster")
    assert page.errors() == []


def test_a_failover_is_played_slowly(page: Page) -> None:
    """The slow motion works with mouse and keyboard and shows the znodes; it also works in a narrow window, with dark
    colours, and without motion.
    """
    page.press("#live ~ #previous")
    page.keys(Keys.ESCAPE)
    until(lambda: page.count("#happened:not([hidden])"), "the list")
    page.press("#happened [data-episode]", 0)
    until(lambda: page.count("[data-key=slowly]"), "the button")
    moment = page.text("#moment")
    page.press("[data-key=slowly]")
    until(lambda: page.count("ol.slowly li") == 1, "the first step")
    assert f"broker-{VICTIM} closes its session" in page.text("#slowly [role=status]")
    page.press("[data-slowly=next]")
    until(lambda: f"deletes /brokers/ids/{VICTIM}" in page.text("ol.slowly li[aria-current]"), "its znode")
    page.keys(Keys.ARROW_RIGHT)
    until(lambda: "watch fires /brokers/ids, from ZooKeeper to broker-0" in page.text("ol.slowly"), "one more step")
    assert page.count("ol.slowly li:last-child .arrow") == 1
    until(lambda: page.text("#moment") != moment, "the moment of the step")
    assert page.driver.execute_script(_MILLISECONDS), "the timeline shows the time around it"
    page.focus("ol.slowly li:last-child button")
    page.keys(Keys.ARROW_LEFT)
    until(lambda: page.count("ol.slowly li") == 2, "one step less")
    assert page.driver.execute_script("return document.activeElement.closest('ol.slowly li') !== null"), "still there"
    page.press("[data-slowly=play]")
    until(lambda: "pause" in page.text("[data-slowly=play]") and page.count("ol.slowly li") > 2, "it goes on")
    page.press("[data-slowly=play]")
    assert "play" in page.text("[data-slowly=play]")
    page.screen(390, 800, "dark")
    still = [{"name": "prefers-reduced-motion", "value": "reduce"}, {"name": "prefers-color-scheme", "value": "dark"}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": still})
    moving = "return document.getAnimations().filter((each) => each.animationName === 'fly').length"
    assert page.driver.execute_script(moving) == 0
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= 390
    assert page.violations() == []
    page.screen(1280, 900, "light")
    page.keys(Keys.ESCAPE)
    until(lambda: page.count("#slowly[hidden]") and page.text("#moment") == moment, "the event again")
    assert page.driver.execute_script("return document.activeElement.dataset.key") == "slowly"
    assert page.errors() == []


_MILLISECONDS = """
    const times = [...document.querySelectorAll("#timeline .axis + text")].map((each) => each.textContent);
    return times.length > 1 && times.every((each) => /\\.\\d{3}$/.test(each));
"""


def test_it_works_inside_a_page_of_a_web_host(page: Page, folder: Path) -> None:
    """The embedding page may give it no origin, and no storage."""
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            page.driver.get(f"http://127.0.0.1:{server.server_port}/slides.html")
            page.driver.switch_to.frame(0)
            until(lambda: page.count("#view [data-broker-box]") == BROKERS, "the cluster")
            assert page.errors() == []
        finally:
            page.driver.switch_to.default_content()
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass
