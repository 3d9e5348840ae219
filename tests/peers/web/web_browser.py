"""The flight recorder's page in a real Chromium, for tests and pictures."""

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from os import environ
from pathlib import Path
from typing import Any, NamedTuple

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.peers.foreign_programs import node_folder
from tests.terminal import Terminal

TIMEOUT_S = 120
PAGE = re.compile(r"web page at (http://\S+)")
BREAKING = re.compile(r"keep\s+it\s+to\s+yourself:\s+(http://\S+&break=\S+)")
READY = re.compile(r"ready bootstrap=(\S+)")
ZOOKEEPER = re.compile(r"zookeeper=(\S+)")
ZOOKEEPER_PID = re.compile(r"zookeeper pid (\d+)")


def until(condition: Callable[[], Any], what: str) -> Any:
    """Repeat ``condition`` until it is true; returns its value. Raises: AssertionError."""
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
        self.driver.set_script_timeout(TIMEOUT_S)  # axe-core takes long on a busy machine
        self._media: list[dict[str, str]] = []  # the emulated media features
        self.driver.get(url)

    def text(self, selector: str) -> str:
        """The texts of all matching elements at one moment, because the page redraws itself constantly."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent).join('\\n')"
        return str(self.driver.execute_script(script, selector))

    def count(self, selector: str) -> int:
        return int(self.driver.execute_script("return document.querySelectorAll(arguments[0]).length", selector))

    def press(self, selector: str, which: int = 0) -> None:
        """Press a button; -1 is the last one that matches."""
        script = "const found = [...document.querySelectorAll(arguments[0])].at(arguments[1]);"
        dispatch = "found.dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        self.driver.execute_script(script + dispatch, selector, which)

    def screen(self, width: int, height: int, scheme: str) -> None:
        """Set the window's size, and the "light" or "dark" scheme."""
        self._media = [{"name": "prefers-color-scheme", "value": scheme}]
        self._emulate(self._media)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def show_all_time(self) -> None:
        self.show_time("0")

    def show_time(self, seconds: str) -> None:
        """Show the last ``seconds`` (0: all), without a click, so that the keyboard's focus stays."""
        choose = "const s = document.getElementById('window'); s.value = arguments[0];"
        self.driver.execute_script(f"{choose} s.dispatchEvent(new Event('change'))", seconds)

    def wind(self, share: float) -> None:
        """Wind to a moment of the recording, from 0 to 1, with the slider."""
        self.driver.execute_script(
            "const s = document.getElementById('slider');"
            "s.value = Number(s.min) + arguments[0] * (Number(s.max) - Number(s.min));"
            "s.dispatchEvent(new Event('input'));",
            share,
        )

    def now_ms(self) -> int:
        """The end of the recording, according to the slider."""
        return int(self.driver.execute_script("return Number(document.getElementById('slider').max)"))

    def wind_to(self, time_ms: int) -> None:
        """Wind to this moment with the slider."""
        self.driver.execute_script(
            "const s = document.getElementById('slider'); s.value = arguments[0]; s.dispatchEvent(new Event('input'));",
            time_ms,
        )

    def saved_picture(self) -> str:
        """The picture that "save picture" saves."""
        return str(self.driver.execute_async_script(_SAVED_PICTURE))

    def selection_kept(self, selector: str) -> list[str]:
        """Select a text while the page requests data to draw. Returns the selection, and what remains of it later."""
        return list(self.driver.execute_async_script(_SELECTED, selector))

    def roles(self) -> list[str]:
        """The role of each replica of the partitions, according to the table."""
        script = "return [...document.querySelectorAll('[data-role]')].map((each) => each.title)"
        return list(self.driver.execute_script(script))

    def type(self, selector: str, text: str) -> None:
        """Replace the content of a field."""
        field = self.driver.find_element(By.CSS_SELECTOR, selector)
        field.clear()
        field.send_keys(text)

    def keys(self, *keys: str) -> None:
        """Press these keys one after the other, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def focus(self, selector: str) -> None:
        self.driver.execute_script("document.querySelector(arguments[0]).focus()", selector)

    def walk(self, most: int) -> list[str]:
        """The elements that the Tab key reaches, in order, by their names for screen readers; "" for none."""
        self.driver.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
        found: list[str] = []
        script = """
            const at = document.activeElement;
            if (at === document.body) return null;
            const seen = getComputedStyle(at).outlineStyle !== "none";
            const labels = [...(at.labels ?? [])].map((each) => each.textContent.trim());
            const name = at.getAttribute("aria-label") || labels[0] || at.textContent.trim() || at.value || at.title;
            return seen ? name : "nothing shows where the focus is: " + name;
        """
        for _ in range(most):
            self.keys(Keys.TAB)
            name = self.driver.execute_script(script)
            if name is None:
                break
            found.append(name)
        return found

    def violations(self) -> list[str]:
        """The violations that axe-core finds in the present view, without animations.

        An element that is still fading in has less contrast than axe-core accepts.
        """
        source = (node_folder("axe") / "node_modules" / "axe-core" / "axe.min.js").read_text()
        self.driver.execute_script(f"if (!window.axe) {{ {source} }}")
        run = "const done = arguments[0]; axe.run().then((found) => done(found.violations), (e) => done([String(e)]))"
        self._emulate([*self._media, {"name": "prefers-reduced-motion", "value": "reduce"}])
        found = self.driver.execute_async_script(run)
        self._emulate(self._media)
        return [
            f"{each['id']} ({each['impact']}): {each['help']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for each in found for node in each["nodes"][:3]
        ]  # fmt: skip

    def _emulate(self, features: list[dict[str, str]]) -> None:
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def errors(self) -> list[Any]:
        driver: Any = self.driver  # Selenium's logs are not typed
        return [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]

    def close(self) -> None:
        self.driver.quit()


def until_lost(page: Page) -> None:
    """Press *next* until a lost record is visible."""

    def is_seen() -> bool:
        page.press("#lesson-next")
        return page.count("[data-square=lost]") > 0

    until(is_seen, "a lost record")


_SELECTED = """
    const [selector, done] = arguments, selection = getSelection(), ask = fetch;
    let count = 0, before = null;
    window.fetch = (url, ...more) => {  // select while the page asks for what it will draw
        if (before === null && String(url).includes("api-health")) {
            selection.selectAllChildren(document.querySelector(selector));
            before = String(selection);
            new MutationObserver(() => { count += 1; if (count === 4) done([before, String(getSelection())]); })
                .observe(document.getElementById("source"), { childList: true, attributes: true });
        }
        return ask(url, ...more);
    };
"""

_SAVED_PICTURE = """
    const done = arguments[0], create = URL.createObjectURL;
    URL.createObjectURL = (blob) => { URL.createObjectURL = create; blob.text().then(done); return "#saved"; };
    document.getElementById("picture").click();
"""


class UpCluster(NamedTuple):
    """A ``kafka-zk up --web``: the page's URL, the addresses of brokers and ZooKeeper, and ZooKeeper's process."""

    url: str
    bootstrap: str
    zookeeper: str
    zookeeper_pid: int


@contextmanager
def cluster_with_page(data: Path, *options: str) -> Iterator[UpCluster]:
    """Start a new cluster of three brokers; ``options``: further options of ``kafka-zk up``."""
    up = [sys.executable, "-m", "kafka_zk", "up", "--port", "0", "--web", "0", "--data", str(data), *options]
    with Terminal(up, environ) as terminal:
        terminal.read_until("web page at", timeout_s=TIMEOUT_S)
        url = until(lambda: terminal.read_until("&break=") and BREAKING.search(terminal.text), "its URL")
        ready, zookeeper, pid = (each.search(terminal.text) for each in (READY, ZOOKEEPER, ZOOKEEPER_PID))
        assert ready is not None and zookeeper is not None and pid is not None
        yield UpCluster(url[1], ready[1], zookeeper[1], int(pid[1]))


@contextmanager
def page_of(*command: str) -> Iterator[Page]:
    """A browser at the page that a ``kafka-zk`` command serves."""
    with Terminal([sys.executable, "-m", "kafka_zk", *command], environ) as terminal, ExitStack() as closing:
        url = until(lambda: terminal.read_until("web page at") and PAGE.search(terminal.text), "its URL")
        page = Page(url[1])
        closing.callback(page.close)
        yield page
