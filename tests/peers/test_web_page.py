"""The flight recorder's page in a real Chromium: what people see, and what happens when they press a button."""

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from os import environ
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from kafka_zk.client.admin import NewTopic
from kafka_zk.client.blocking_admin import BlockingAdmin
from tests.terminal import Terminal

pytestmark = pytest.mark.peers

TIMEOUT_S = 120
PAGE = re.compile(r"web page at (http://\S+)")
READY = re.compile(r"ready bootstrap=(\S+)")
ZOOKEEPER = re.compile(r"zookeeper=(\S+)")


def until(condition: Callable[[], Any], what: str) -> Any:
    """What it says once that is true. Raises: AssertionError."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        assert time.monotonic() < deadline_s, f"waited in vain for {what}"
        time.sleep(0.1)
    return found


class Page:
    """One browser."""

    def __init__(self, url: str) -> None:
        options = Options()
        options.binary_location = shutil.which("chromium") or "chromium"
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.get(url)

    def text(self, selector: str) -> str:
        """Of all that match, at one moment: the page draws itself again and again."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent).join('\\n')"
        return str(self.driver.execute_script(script, selector))

    def count(self, selector: str) -> int:
        return int(self.driver.execute_script("return document.querySelectorAll(arguments[0]).length", selector))

    def press(self, selector: str, which: int = 0) -> None:
        """-1: the last one."""
        script = "const found = [...document.querySelectorAll(arguments[0])].at(arguments[1]);"
        dispatch = "found.dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        self.driver.execute_script(script + dispatch, selector, which)

    def show_all_time(self) -> None:
        Select(self.driver.find_element(By.ID, "window")).select_by_value("0")

    def wind(self, share: float) -> None:
        """To a moment of the recording, from 0 to 1, by the slider."""
        self.driver.execute_script(
            "const s = document.getElementById('slider');"
            "s.value = Number(s.min) + arguments[0] * (Number(s.max) - Number(s.min));"
            "s.dispatchEvent(new Event('input'));",
            share,
        )

    def roles(self) -> list[str]:
        """What each replica of the partitions is, as the table says."""
        script = "return [...document.querySelectorAll('[data-role]')].map((each) => each.title)"
        return list(self.driver.execute_script(script))

    def errors(self) -> list[Any]:
        log: list[Any] = self.driver.get_log("browser")
        return [entry for entry in log if entry["level"] == "SEVERE"]

    def close(self) -> None:
        self.driver.quit()


def exported(page: Page) -> bytes:
    """What the link for the shown time gives."""
    with urlopen(str(page.driver.find_element(By.ID, "export").get_property("href")), timeout=TIMEOUT_S) as answer:
        return bytes(answer.read())


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[list[Page]]:
    """Two browsers at the page of a cluster of three brokers with one topic."""
    up = [sys.executable, "-m", "kafka_zk", "up", "--port", "0", "--web", "0", "--data", str(tmp_path / "cluster")]
    with Terminal(up, environ) as terminal, ExitStack() as closing:
        terminal.read_until("web page at", timeout_s=TIMEOUT_S)
        url = until(lambda: terminal.read_until("token=") and PAGE.search(terminal.text), "its URL")
        ready = READY.search(terminal.text)
        assert ready is not None
        with BlockingAdmin(bootstrap_servers=ready[1]) as admin:
            admin.create_topics([NewTopic("seen", assignment={0: [2, 0, 1]})])
        opened = [Page(url[1]) for _ in range(2)]
        for page in opened:
            closing.callback(page.close)
        yield opened


def test_a_leader_is_killed_by_a_button_and_brought_back_by_the_slider(pages: list[Page]) -> None:
    """Both browsers see it; the moment before shows the old leader; an event says why it came, and what it changed."""
    first, second = pages
    for page in pages:
        until(lambda page=page: "broker 2 leads" in page.roles(), "the leader")
    first.press("[data-break=kill-2]")
    for page in pages:
        until(lambda page=page: {"broker 2 behind", "broker 0 leads"} <= set(page.roles()), "the new leader")
        assert "no session" in page.text("#view svg")
    until(lambda: "moved to other leaders" in second.text("#happened"), "the failover as one line")
    second.press("[data-episode]", 0)
    until(lambda: "What came of it?" in second.text("#chosen:not([hidden]) #details"), "the failover's first event")
    second.press("#back")
    until(lambda: second.text("#happened:not([hidden])"), "the list again")
    second.press("#live")
    assert exported(first)[:15] == b"SQLite format 3"
    first.show_all_time()
    first.press("#previous")
    until(lambda: "Why?" in first.text("#details"), "the event")
    before = first.text("#moment")
    first.press("#previous")
    until(lambda: first.text("#moment") != before, "the event before")
    first.wind(0)
    until(lambda: "No topics." in first.text("#view") or "Nothing" in first.text("#view"), "the beginning")
    second.show_all_time()
    until(lambda: second.driver.find_elements(By.CSS_SELECTOR, "#timeline [data-seq]"), "events")
    second.press("#timeline [data-seq]", -1)
    until(lambda: "What came of it?" in second.text("#details"), "its causes")
    second.press("#view-tree")
    until(lambda: "topics" in second.text("#view table.tree"), "the znodes")
    second.press("#live")
    until(lambda: second.driver.find_element(By.ID, "live").get_attribute("aria-pressed") == "true", "live")
    assert [page.errors() for page in pages] == [[], []]
    first.press("#live")
    first.press("#view-cluster")
    lane = "#timeline [role=img][aria-label^='seen-0']"
    until(lambda: first.count(lane) == 1, "the partition's lane")
    first.press("#timeline [data-key='leader seen-']")
    until(lambda: not first.count(lane), "the topic folded")
    until(lambda: first.text("#view td.number"), "a high watermark")
    first.press("[data-break=restart-2]")
    until(lambda: "broker 2 in sync" in first.roles(), "broker 2 back in the ISR")


@pytest.fixture
def lesson() -> Iterator[Page]:
    """A browser at the page of a scenario."""
    web = [sys.executable, "-m", "kafka_zk", "web", "--port", "0", "zombie-controller"]
    with Terminal(web, environ) as terminal, ExitStack() as closing:
        url = until(lambda: terminal.read_until("web page at") and PAGE.search(terminal.text), "its URL")
        page = Page(url[1])
        closing.callback(page.close)
        yield page


def test_a_scenario_is_learnt_step_by_step(lesson: Page) -> None:
    """A question comes before the picture that answers it; back goes back; wrong answers are told the right one."""
    until(lambda: "begin" in lesson.text("#lesson-next"), "the first page")
    assert "controller" in lesson.text("#lesson p")
    asked = 0
    step = 0
    while asked < 3:
        lesson.press("#lesson-next")
        step += 1
        until(lambda number=step: f"Step {number} of" in lesson.text("#lesson"), f"step {step}")
        if lesson.count("[data-choice]"):
            before = lesson.text("#moment")
            asked += 1
            lesson.press("[data-choice=nobody]")
            until(lambda: lesson.text("#lesson [role=status]"), "whether that is right")
            until(lambda shown=before: lesson.text("#moment") != shown, "the moment after")
    assert "of 3 right" in lesson.text("#lesson")
    lesson.press("#lesson-back")
    until(lambda: f"Step {step - 1} of" in lesson.text("#lesson"), "the step before")
    lesson.press("#view-tree")
    until(lambda: "topics" in lesson.text("#view table.tree"), "the znodes")
    lesson.press("[data-key='znode /brokers']")
    until(lambda: "What became of it" in lesson.text("#details"), "the znode's history")
    lesson.driver.find_element(By.ID, "filter").send_keys("controller_epoch")
    until(lambda: lesson.count("#view tr[data-path]") == 1, "the filter")
    assert lesson.errors() == []
