"""A presenter and viewers in real Chromiums: viewers see what the presenter sees until they let go."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from selenium.webdriver.common.keys import Keys

from kafka_zk.cli.cluster.web_sharing import share_address
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.embedded.process import tied
from kafka_zk.recorder.recording.recording import Recording
from tests.kafka_zk.recorder.web.large_cluster import large_cluster
from tests.peers.web.web_browser import Page, until

pytestmark = pytest.mark.peers

CONTROLLER = "/controller"


class Links(NamedTuple):
    presenter: str
    viewers: str


@contextmanager
def shared(recording: str) -> Iterator[Links]:
    """``kafka-zk web --share`` at the address that reaches other machines, which browsers trust less than 127.0.0.1."""
    try:
        address = share_address(None)
    except CommandFailed:
        pytest.skip("this machine has no network")
    command = [sys.executable, "-m", "kafka_zk", "web", recording, "--share", "--port", "0", "--json"]
    with subprocess.Popen(tied(command), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert address.ip in told["viewers_url"] and "127.0.0.1" in told["presenter_url"]
            yield Links(told["presenter_url"], told["viewers_url"])
        finally:
            process.terminate()


@contextmanager
def browsers(links: Links, viewers: int) -> Iterator[list[Page]]:
    """The presenter's browser, then the viewers'."""
    with ExitStack() as closing:

        def opened(url: str) -> Page:
            page = Page(url)
            closing.callback(page.close)
            return page

        yield [opened(links.presenter), *(opened(links.viewers) for _ in range(viewers))]


def follows(page: Page) -> bool:
    """Its label stays the same, because a screen reader would announce the change twice."""
    assert page.text("#follow") == "follow the presenter"
    return page.count("#follow[aria-pressed=true]") == 1


def is_at(step: str, page: Page) -> bool:
    return page.text("#slowly [role=status]").startswith(step)


def is_in_step(step: int, page: Page) -> bool:
    return f"Step {step} of" in page.text("#lesson")


def until_all(pages: list[Page], condition: Callable[[Page], object], what: str) -> None:
    for page in pages:
        until(partial(condition, page), what)


def test_two_viewers_follow_a_presenter_and_one_lets_go(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "large.sqlite")
    recording.add([], large_cluster(20, 3, 4))
    recording.close()
    with shared(str(tmp_path / "large.sqlite")) as links, browsers(links, 2) as pages:
        presenter, first, second = pages
        until_all(pages, lambda page: page.count("#view tr.topic") == 3, "the topics")
        until(lambda: "presenting to 2 viewers" in presenter.text("#sharing"), "the viewers")
        assert follows(first)
        assert first.count("#break[hidden]") == first.count("#export[hidden]") == 1
        assert [first.violations(), presenter.violations()] == [[], []]

        last = presenter.text("#moment")
        presenter.wind(0.6)
        until(lambda: presenter.text("#moment") != last, "an earlier moment")
        moment = presenter.text("#moment")
        until_all([first, second], lambda page: page.text("#moment") == moment, "the moment")
        presenter.press("#view-tree")
        until(lambda: presenter.count(f"[data-path='{CONTROLLER}'] button.znode"), "the znodes")
        presenter.press(f"[data-path='{CONTROLLER}'] button.znode")
        presenter.type("#filter", "controller")
        until_all(pages, lambda page: CONTROLLER in page.text("#details h2"), "the chosen znode")
        until_all([first, second], lambda page: page.count("#view-tree[aria-pressed=true]"), "the view")
        until_all([first, second], lambda page: page.count("#view tr[data-path]") == 2, "the filter")

        second.press("#view-cluster")
        until(lambda: not follows(second), "that the viewer has let go")
        presenter.type("#filter", " ")
        presenter.press("#view-cluster")
        presenter.press("#back")
        presenter.press("[data-episode]")
        until_all([presenter, first], lambda page: page.count("[data-key=slowly]"), "the chosen episode")
        presenter.press("[data-key=slowly]")
        until_all([presenter, first], partial(is_at, "1 of"), "slow motion")
        presenter.press("[data-slowly=next]")
        until_all([presenter, first], partial(is_at, "2 of"), "its next step")
        assert first.text("ol.slowly") == presenter.text("ol.slowly")
        assert second.count("#slowly[hidden]") and second.text("#moment") == moment, "who has let go stays there"

        second.press("#follow")
        until(partial(is_at, "2 of", second), "the presenter's step")
        presenter.press("[data-slowly=close]")
        until_all(pages, lambda page: page.count("#slowly[hidden]"), "the end of slow motion")
        late = Page(links.viewers)
        try:
            until(lambda: late.text("#moment") == presenter.text("#moment"), "the moment, for one who comes late")
            assert late.driver.execute_async_script(_ACTS) == [403, 403, 403]
        finally:
            late.close()
        assert [error for page in pages for error in page.errors()] == []


_ACTS = """
    const done = arguments[0], token = new URLSearchParams(location.hash.slice(1)).get("token");
    const body = JSON.stringify({ action: "kill", broker: 0 }), headers = { "x-kafka-zk-token": token };
    const act = (path) => fetch(path, { method: "POST", headers, body });
    const all = [act("api-break"), act("api-present"), fetch(`api-export?from_ms=0&to_ms=9999999999&token=${token}`)];
    Promise.all(all).then((found) => done(found.map((each) => each.status)));
"""


_HOLD = """
    const send = window.fetch;
    window.held = [];
    window.sent = 0;
    window.fetch = (...asked) => {
      window.sent += 1;
      const gate = window.held ? new Promise((open) => window.held.push(open)) : Promise.resolve();
      const whole = gate.then(() => send(...asked)).then((answer) => answer.clone().text().then(() => answer));
      return whole.finally(() => { window.sent -= 1; });
    };
"""
_RELEASE = "const held = window.held; window.held = null; for (const open of held) open()"


def test_a_viewer_who_lets_go_while_answers_are_on_their_way_is_not_taken_back(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "large.sqlite")
    recording.add([], large_cluster(20, 3, 4))
    recording.close()
    with shared(str(tmp_path / "large.sqlite")) as links, browsers(links, 1) as pages:
        presenter, viewer = pages
        until_all(pages, lambda page: page.count("[data-episode]"), "what happened")
        viewer.driver.execute_script(_HOLD)
        presenter.press("[data-episode]")
        until(lambda: presenter.count("[data-key=slowly]"), "the chosen episode")
        until(lambda: viewer.driver.execute_script("return window.held.length"), "the viewer's questions")
        viewer.keys(Keys.ESCAPE)
        assert not follows(viewer)
        viewer.driver.execute_script(_RELEASE)
        until(lambda: viewer.driver.execute_script("return window.sent") == 0, "all answers")
        assert viewer.count("#chosen[hidden]"), "nothing is chosen on the page of a viewer who has gone back"


def test_a_viewer_follows_a_scenario_and_its_questions() -> None:
    """A question stays open for viewers until the presenter answers it."""
    with shared("zombie-controller") as links, browsers(links, 1) as pages:
        presenter, viewer = pages
        until_all(pages, lambda page: "begin" in page.text("#lesson-next"), "the first page")
        step = 0
        while not presenter.count("[data-choice]"):
            presenter.press("#lesson-next")
            step += 1
            until_all(pages, partial(is_in_step, step), f"step {step}")
        until(lambda: viewer.count("[data-choice]"), "the question")
        assert viewer.text("#lesson b") == presenter.text("#lesson b")
        assert viewer.text("#moment") == presenter.text("#moment")
        presenter.press("[data-choice=none]")
        until_all(pages, lambda page: page.text("#lesson [role=status]"), "the answer")
        until(lambda: viewer.text("#moment") == presenter.text("#moment"), "the moment after")
        assert viewer.text("#lesson [role=status]") == presenter.text("#lesson [role=status]")
        assert [error for page in pages for error in page.errors()] == []


_FAIL_ONCE = """
    const send = window.fetch;
    window.failed = 0;
    window.fetch = (...asked) => {
      if (window.failed || !decodeURIComponent(String(asked[0])).match(/api-lesson|\\["lesson"/)) return send(...asked);
      window.failed += 1;
      return Promise.reject(new TypeError("the network was away"));
    };
"""


def test_a_viewer_whose_lesson_could_not_be_loaded_follows_with_the_next_news() -> None:
    """A page that was opened before a restart asks for the new link."""
    with shared("zombie-controller") as links, browsers(links, 1) as pages:
        presenter, viewer = pages
        viewer.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _FAIL_ONCE})
        viewer.driver.refresh()
        until(lambda: viewer.driver.execute_script("return window.failed") == 1, "the failure")
        presenter.press("#lesson-next")
        until_all(pages, partial(is_in_step, 1), "the presenter's step")
        viewer.driver.get(links.viewers[:-5])
        viewer.driver.refresh()
        until(lambda: "ask the presenter for the new one" in viewer.text("#problem:not([hidden])"), "the reason")
