"""The flight recorder's page in a real Chromium: what users see, and the effect of each button."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.recorder.recording.shared_file import open_shared_file
from tests.integration.processes import ENVIRON
from tests.peers import targets
from tests.peers.groups.mixed_group import MixedGroup
from tests.peers.jars import MAGIC_1_VERSION
from tests.peers.web.slow_motion import check_slow_motion
from tests.peers.web.web_browser import TIMEOUT_S, Page, UpCluster, cluster_with_page, page_of, until, until_lost

pytestmark = pytest.mark.peers


def kinds_exported(page: Page, folder: Path) -> dict[str, int]:
    """The number of entries of each kind in the file that the export link for the shown time returns."""
    with urlopen(str(page.driver.find_element(By.ID, "export").get_property("href")), timeout=TIMEOUT_S) as answer:
        (folder / "exported").write_bytes(answer.read())
    recording = open_shared_file(folder / "exported")
    kinds = recording.entries.kinds_between(0, 10**15)
    recording.close()
    return kinds


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpCluster]:
    """A cluster of three brokers, with one topic."""
    with cluster_with_page(tmp_path_factory.mktemp("web") / "cluster") as up:
        with BlockingAdmin(bootstrap_servers=up.bootstrap) as admin:
            admin.create_topics([NewTopic("seen", assignment={0: [2, 0, 1]})])
        yield up


@pytest.fixture
def open_page(cluster: UpCluster) -> Iterator[Callable[[], Page]]:
    """Open another browser at the cluster's page."""
    with ExitStack() as closing:

        def opened() -> Page:
            page = Page(cluster.url)
            closing.callback(page.close)
            return page

        yield opened


def test_a_leader_is_killed_by_a_button_and_brought_back_by_the_slider(
    open_page: Callable[[], Page], tmp_path: Path
) -> None:
    """Both browsers show it. Before the kill, the old leader is shown. An event names its cause and its effects."""
    first, second = pages = [open_page(), open_page()]
    for page in pages:
        until(partial(lambda page: "broker 2 leads" in page.roles(), page), "the leader")
    before_ms = first.now_ms()
    first.press("[data-broker='2']")
    first.press("[data-break=kill]")
    until(lambda: "Expect: Its session is closed at once" in first.text("#break .toast"), "what to expect")
    for page in pages:
        until(partial(lambda page: {"broker 2 behind", "broker 0 leads"} <= set(page.roles()), page), "the new leader")
        assert "no session" in page.text("#view svg")
    until(lambda: "moved to other leaders" in first.text("#break .came"), "what came of it, beside the buttons")
    until(lambda: "moved to other leaders" in second.text("#happened"), "the failover as one line")
    assert "kill broker 2. Expect:" in second.text("#happened"), "who did it"
    failover = second.text("[data-episode]").split("\n")
    second.press("[data-episode]", next(at for at, text in enumerate(failover) if "lost its session" in text))
    until(lambda: "Effects" in second.text("#chosen:not([hidden]) #details"), "the failover's first event")
    assert "The session of broker-2 ended" in second.text("#details h2")
    check_keys_and_steps(second)
    assert "kill broker 2" in second.text("#details ol.chain"), "why"
    assert "no session" in second.text("#view svg"), "its znodes went in the same transaction"
    code = str(second.driver.find_element(By.CSS_SELECTOR, "#details a").get_property("href"))
    with urlopen(code, timeout=TIMEOUT_S) as answer:
        assert b"def " in answer.read(), "the code that does this"
    assert second.violations() == []
    check_slow_motion(second)
    second.press("#back")
    until(lambda: second.text("#happened:not([hidden])"), "the list again")
    second.press("#live")
    first.show_all_time()
    until(lambda: kinds_exported(first, tmp_path).get("session ended"), "the session's end in the exported file")
    assert "broker 2" in first.saved_picture() and "seen-0" in first.saved_picture()
    after_ms = first.now_ms()
    first.wind_to(before_ms)
    until(lambda: "broker 2 leads" in first.roles(), "the leader before")
    first.wind_to(after_ms)
    until(lambda: {"broker 2 behind", "broker 0 leads"} <= set(first.roles()), "the leader after")
    first.press("#previous")
    until(lambda: "Why?" in first.text("#details"), "the event")
    before = first.text("#moment")
    first.press("#previous")
    until(lambda: first.text("#moment") != before, "the event before")
    first.wind(0)
    until(lambda: "No topics." in first.text("#view") or "Nothing" in first.text("#view"), "the beginning")
    second.show_all_time()
    until(lambda: second.count("#timeline [data-seq]"), "events")
    check_zookeepers_lane(second)
    second.press("#timeline [data-seq]", -1)
    until(lambda: "Effects" in second.text("#details"), "its causes")
    second.press("#view-tree")
    until(lambda: "topics" in second.text("#view table.tree"), "the znodes")
    second.press("#live")
    until(lambda: second.driver.find_element(By.ID, "live").get_attribute("aria-pressed") == "true", "live")
    assert [page.errors() for page in pages] == [[], []]
    assert [page.count("#problem[hidden]") for page in pages] == [1, 1], "a broker's death is no problem of the page"
    first.press("#live")
    first.press("#view-cluster")
    lane = "#timeline [role=img][aria-label^='seen-0']"
    until(lambda: first.count(lane) == 1, "the partition's lane")
    first.press("#timeline [data-key='leader seen-']")
    until(lambda: not first.count(lane), "the topic folded")
    until(lambda: first.text("#view td.number"), "a high watermark")
    first.press("[data-break=restart]")
    until(lambda: "broker 2 in sync" in first.roles(), "broker 2 back in the ISR")


def check_keys_and_steps(page: Page) -> None:
    """W goes from the end of a session to its cause, E to its first effect; a step of the episode can be chosen."""
    page.keys("w")
    until(lambda: "kill broker 2" in page.text("#details h2").lower(), "the cause")
    page.keys("e")
    until(lambda: "The session of broker-2 ended" in page.text("#details h2"), "its first effect")
    page.press("#back")
    until(lambda: page.count("#happened:not([hidden])"), "the list")
    failover = page.text("[data-episode]").split("\n")
    page.press("[data-episode]", next(at for at, text in enumerate(failover) if "lost its session" in text))
    until(lambda: page.count("#details details.steps"), "the steps")
    assert page.count("#details details.steps[open]") == 0
    page.press("#details details.steps summary")
    until(lambda: page.count("#details details.steps[open] li") > 5, "the steps, unfolded")
    steps = page.text("#details details.steps li").split("\n")
    fired = next(at for at, text in enumerate(steps) if " fired: " in text)
    page.press("#details details.steps [data-seq]", fired)
    until(lambda: " fired: " in page.text("#details h2"), "a step")
    page.press("[data-episode]", next(at for at, text in enumerate(failover) if "lost its session" in text))
    until(lambda: "The session of broker-2 ended" in page.text("#details h2"), "the first event again")


def check_zookeepers_lane(page: Page) -> None:
    """ZooKeeper's lane shows every write to ZooKeeper, by any client, ZooKeeper's own health, and nothing else."""
    script = """
        const done = arguments[0], to = document.getElementById("slider");
        fetch(`api-entries?from_ms=${to.min}&to_ms=${to.max}&token=${new URLSearchParams(location.hash.slice(1)).get("token")}`).then((each) => each.json()).then(({ entries }) => {
          const kinds = ["created", "changed", "deleted", "session began", "session ended"];
          const shown = [...document.querySelectorAll("#timeline [data-lane=ZooKeeper]")].map((each) => Number(each.dataset.seq));
          const written = entries.filter((each) => each.actor === "ZooKeeper" || (each.zxid && kinds.includes(each.kind))).map((each) => each.seq);
          const seen = Math.max(...shown); // more may have come since it was drawn
          done([shown.toSorted((a, b) => a - b), written.filter((each) => each <= seen).toSorted((a, b) => a - b)]);
        });
    """  # noqa: E501
    shown, written = page.driver.execute_async_script(script)
    assert len(shown) > 20 and shown == written
    assert page.count("#timeline [role=img][aria-label^='ZooKeeper:']") == 1


def test_zookeeper_is_stopped_and_nothing_is_said_to_be_well(cluster: UpCluster, open_page: Callable[[], Page]) -> None:
    """Headline, list, table, lane and hearts say which server stopped, and when; live and after winding back."""
    page = open_page()
    until(lambda: page.count("#view [data-heart=heard]") == 3, "three hearts")
    before_ms = page.now_ms()
    os.kill(cluster.zookeeper_pid, signal.SIGSTOP)
    try:
        until(lambda: f"({cluster.zookeeper}: no response within 2 s)" in page.text(".headline.wrong"), "the headline")
        until(lambda: page.count("#view [data-heart=unknown]") == 3, "hearts that stop")
        down = ("#view .beats", "#view [data-zookeeper=down]", "#view tr[data-state=down]")
        assert [page.count(each) for each in down] == [0, 1, 1] and page.violations() == []
        page.press("#view-tree")
        until(lambda: "as they were then" in page.text("#view .headline.wrong"), "the same above the znodes")
        page.press("#view-cluster")
        until(lambda: "does not serve" in page.text("#happened [data-episode]"), "the list")
    finally:
        os.kill(cluster.zookeeper_pid, signal.SIGCONT)
    until(lambda: "did not serve" in page.text("#happened [data-episode]"), "the outage's end")
    until(lambda: page.count("#view [data-heart=heard]") == 3, "hearts that beat again")
    page.press("[data-episode]", ["did not serve" in it for it in page.text("[data-episode]").split("\n")].index(True))
    until(lambda: "ZooKeeper has not answered since" in page.text(".headline.wrong"), "the outage, wound back")
    assert page.count(f"#timeline [role=img][aria-label^='ZooKeeper {cluster.zookeeper}']") == 1
    page.wind_to(before_ms)
    until(lambda: page.count("#view [data-heart=heard]") == 3, "before it")
    assert "ZooKeeper" not in page.text(".headline") and page.errors() == []


def test_who_watches_what(open_page: Callable[[], Page]) -> None:
    """Every broker watches the controller's znode; only the controller watches the list of brokers."""
    page = open_page()
    page.press("#view-tree")
    watched = "#view tr[data-path='{}'] td:last-child"
    everybody = [f"controller-{each}" for each in range(3)]
    until(lambda: all(each in page.text(watched.format("/controller")) for each in everybody), "all brokers' watches")
    until(lambda: page.text(watched.format("/brokers/ids")) in everybody, "the controller's")
    page.press("#view tr[data-path='/controller'] button.znode")
    until(lambda: "Watched by" in page.text("#details") and everybody[0] in page.text("#details"), "the same")
    assert page.selection_kept("#details h2") == ["/controller", "/controller"], "news lose no selection"


def test_members_and_a_producer_come_and_go_by_buttons(open_page: Callable[[], Page]) -> None:
    """In groups of both kinds, one member leaves and one crashes; each time the page says what to expect."""
    page = open_page()
    until(lambda: "broker 2 in sync" in page.roles() or "broker 2 leads" in page.roles(), "all brokers")
    page.press("#break summary")
    page.press("[data-break=produce]")
    until(lambda: "10 records/s to flights" in page.text("#break .running"), "the producer")
    before_ms = page.now_ms()
    page.press("[data-break=join]")
    until(lambda: page.count("#view [data-group=board]") == 1, "a member in ZooKeeper")
    joined_ms = page.now_ms()
    page.wind_to(before_ms)
    until(lambda: page.count("#view [data-group=board]") == 0, "the moment before")
    page.wind_to(joined_ms)
    until(lambda: page.count("#view [data-group=board]") == 1, "the moment after")
    page.press("#live")
    page.press("[data-break=join]")
    until(lambda: page.count("#view [data-group=board]") == 2, "another one")
    page.type("#break input[aria-label=group]", "loader")
    page.driver.execute_script("document.querySelector('#break select').value = 'broker'")
    page.press("[data-break=join]")
    until(lambda: page.count("#view [data-group=loader]") == 1, "a member in the broker")
    assert "gets its share" in page.text("#break .toast")
    page.press("[data-runs='board/anna'] [data-break=leave]")
    until(lambda: page.count("#view [data-group=board]") == 1, "one who left")
    until(lambda: "anna left" in page.text("#happened"), "that in the list")
    page.press("[data-runs='board/ben'] [data-break=crash]")
    until(lambda: "leaves without notice" in page.text("#break .toast"), "what to expect of a crash")
    until(lambda: page.count("#view [data-group=board]") == 0, "the end of its session")
    until(lambda: "records/s" in page.text("#timeline .measure"), "the throughput")
    page.press("[data-runs=flights] [data-break=produce]")
    until(lambda: not page.count("[data-runs=flights]"), "the producer's end")
    assert page.errors() == []


def test_connections_are_cut_and_delayed_and_a_disk_is_full(open_page: Callable[[], Page]) -> None:
    """The broker sends no heartbeats, then loses its session and returns; its state names the problem."""
    page = open_page()
    until(lambda: page.text("#view svg text").count("session lives") == 3, "three brokers")
    until(lambda: page.count("#view [data-heart=heard]") == 3, "their hearts")
    until(lambda: page.count("#view .beats"), "one that beats")
    page.press("#break summary")
    page.press("[data-broker='1']")
    page.press("[data-break=delay]")
    until(lambda: "zookeeper delayed by 500 ms" in page.text("#break .row"), "the delay")
    page.press("[data-break=cut]")
    until(lambda: "cut from zookeeper" in page.text("#break .row"), "the cut")
    until(lambda: page.count("#view [data-heart=silent]") == 1, "its heart to fade")
    silent_ms = page.now_ms()
    until(lambda: "no session" in page.text("#view svg"), "the session's end")
    assert page.count("#view [data-heart]") == 2 and "no session" in page.text(".headline.wrong")
    page.wind_to(silent_ms)
    until(lambda: page.count("#view [data-heart=silent]") == 1, "the faded heart again")
    page.press("#live")
    page.press("[data-break=mend]")
    until(lambda: page.text("#view svg text").count("session lives") == 3, "its new session")
    assert "cut" not in page.text("#break .row .soft")
    page.type("#break input[aria-label=topic]", "more")
    page.press("[data-break=produce]")
    until(lambda: page.count("[data-runs=more] [data-break=produce]"), "who sends")
    page.press("[data-break=fill-disk]")
    until(lambda: "disk full" in page.text("#break .row"), "the full disk")
    until(lambda: "no session" in page.text("#view svg"), "the broker to give up its log directory")
    page.press("[data-break=free-disk]")
    page.press("[data-break=restart]")
    until(lambda: page.text("#view svg text").count("session lives") == 3, "its return")
    page.press("[data-break=free-disk]")
    until(lambda: "is not full" in page.text("#break .toast"), "why not")
    page.press("[data-runs=more] [data-break=produce]")


def test_everybody_can_use_it(open_page: Callable[[], Page]) -> None:
    """axe-core finds nothing in any view, dark or light. The keyboard alone reaches everything; the focus is
    visible."""
    page = open_page()
    until(lambda: "broker 2 leads" in page.roles() or "broker 2 in sync" in page.roles(), "the cluster")
    found: list[str] = []
    for scheme in ("light", "dark"):
        page.screen(1280, 760, scheme)
        for view in ("#view-help", "#view-strategies", "#view-tree", "#view-cluster"):
            page.press(view)
            until(partial(page.count, f"{view}[aria-pressed=true]"), view)
            found += [f"{scheme} {view} {each}" for each in page.violations()]
        page.show_all_time()
        until(lambda: page.count("#timeline [data-seq]"), "events")
        page.press("#timeline [data-seq]", -1)
        until(lambda: page.text("#details h2"), "an event")
        found += [f"{scheme} event {each}" for each in page.violations()]
        page.press("#view-tree")
        until(lambda: page.text("#view table.tree"), "the znodes")
        page.press("#view button.znode")
        until(lambda: "Its history" in page.text("#details"), "a znode")
        found += [f"{scheme} znode {each}" for each in page.violations()]
        page.press("#view-cluster")
        page.press("#live")
        page.driver.execute_script("document.querySelector('#break details').open = true")
        until(lambda: page.count("#break:not([hidden])"), "what can be broken")
        found += [f"{scheme} break {each}" for each in page.violations()]
    page.driver.execute_script("document.querySelector('#break details').open = false")
    assert not found, "\n".join(found)
    page.press("#break summary")
    page.wind(0.9)  # nothing is drawn while the focus moves
    until(lambda: page.count("#live[aria-pressed=false]"), "a moment")
    walked = page.walk(150)
    assert [name for name in walked if not name or name.startswith("nothing shows")] == []
    for name in ("Znodes", "kill", "add member", "Moment", "▶ play", "save picture"):
        assert name in walked
    assert any(name.startswith("seen leaders") for name in walked), "the timeline's lanes"
    page.keys("z")
    until(lambda: page.text("#view table.tree"), "the znodes, by a key")
    page.keys("/")
    page.keys("controller_epoch")
    until(lambda: page.count("#view tr[data-path]") == 1, "the filter")
    page.focus("#view button.znode")
    page.keys(Keys.ENTER)
    until(lambda: "Its history" in page.text("#details"), "a znode by a key")
    page.keys(Keys.ESCAPE, "c", "l")
    until(lambda: page.driver.find_element(By.ID, "live").get_attribute("aria-pressed") == "true", "live, by a key")


def test_a_narrow_window_shows_one_column() -> None:
    """The lesson comes first, then the cluster and the timeline, each as wide as the window."""
    rectangle = "const r = document.querySelector(arguments[0]).getBoundingClientRect(); return [r.top, r.width]"
    with page_of("web", "--port", "0", "zombie-controller") as lesson:
        lesson.screen(480, 800, "light")
        until(lambda: "begin" in lesson.text("#lesson-next"), "the first page")
        places = [lesson.driver.execute_script(rectangle, each) for each in ("#lesson", "#view", "#time")]
        assert places == sorted(places)
        assert min(width for _, width in places) > 400
        assert lesson.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_a_scenario_is_learnt_step_by_step() -> None:
    """A question comes before the picture that answers it, and *back* returns to it. A wrong answer shows the right
    one. Records turn red when they are lost."""
    with page_of("web", "--port", "0", "zombie-controller") as lesson:
        until(lambda: "begin" in lesson.text("#lesson-next"), "the first page")
        assert "controller" in lesson.text("#lesson p")
        asked = 0
        step = 0
        while asked < 3:
            lesson.press("#lesson-next")
            step += 1
            until(partial(lambda number: f"Step {number} of" in lesson.text("#lesson"), step), f"step {step}")
            if lesson.count("[data-choice]"):
                before = lesson.text("#moment")
                asked += 1
                lesson.press("[data-choice=none]")
                until(lambda: lesson.text("#lesson [role=status]"), "whether that is right")
                until(partial(lambda shown: lesson.text("#moment") != shown, before), "the moment after")
        assert "of 3 right" in lesson.text("#lesson")
        lesson.press("#lesson-back")
        until(lambda: f"Step {step - 1} of" in lesson.text("#lesson"), "the step before")
        until_lost(lesson)
        assert "a, b and c are lost" in lesson.text(".side.shown") and lesson.count(".side [data-square=passed]") == 3
        for width, scheme in ((390, "light"), (1280, "dark")):
            lesson.screen(width, 900, scheme)
            assert lesson.violations() == []
            assert lesson.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        lesson.press("#view-tree")
        until(lambda: "topics" in lesson.text("#view table.tree"), "the znodes")
        lesson.press("[data-key='znode /brokers']")
        until(lambda: "Its history" in lesson.text("#details"), "the znode's history")
        lesson.driver.find_element(By.ID, "filter").send_keys("controller_epoch")
        until(lambda: lesson.count("#view tr[data-path]") == 1, "the filter")
        assert lesson.errors() == []


def test_the_first_chapter_of_the_lesson_from_start_to_end() -> None:
    """Members join at the reader's pace; the cluster knows the owners that the lesson asks for; back and skip work."""
    with page_of("lesson", "--web", "0", "--chapter", "1", "--chapter", "2") as lesson:
        until(lambda: "begin" in lesson.text("#lesson-next"), "the first page")
        said: list[str] = []
        right = 0
        while "2. Two groups" not in lesson.text("#lesson p.soft"):
            until(lambda: lesson.count("#lesson-next:not([disabled])"), "the next step")
            lesson.press("#lesson-next")
            number = len(said) + 1
            until(partial(lambda number: f"Step {number} of" in lesson.text("#lesson"), number), f"step {number}")
            said.append(lesson.text("#lesson .step"))
            if lesson.count("[data-choice]"):
                assert _beyond(lesson) == 0, "the timeline gives nothing away"
                lesson.press(f"[data-choice='{_answer(lesson)}']")
                until(lambda: "right." in lesson.text("#lesson [role=status]"), "that to be right")
                assert lesson.count("#lesson [role=status] p") == 2, "why"
                right += 1
            if said[-1] == "emil joins.":
                until(lambda: lesson.count("#view [data-group=class]") == 5, "five members in the picture")
                for scheme in ("dark", "light"):
                    lesson.screen(1280, 760, scheme)
                    assert lesson.violations() == []
        assert right == 2, "the questions are about concepts"
        joins = [f"{name} joins." for name in ("anna", "ben", "cleo", "dora", "emil")]
        assert [text for text in said if text in joins] == joins
        assert any("is idle" in text for text in said) and any("leaves" in text for text in said)
        number = len(said)
        lesson.press("#lesson-back")
        until(lambda: f"Step {number - 1} of" in lesson.text("#lesson"), "the step before")
        assert lesson.count("#lesson .picture") == 1, "partitions by time"
        until(lambda: lesson.count("#lesson select option") == 2, "both chapters")
        choose = "const s = document.querySelector('#lesson select'); s.selectedIndex = 1;"
        lesson.driver.execute_script(choose + "s.dispatchEvent(new Event('change'))")
        until(lambda: f"Step {number} of" in lesson.text("#lesson"), "the second chapter")
        check_place_and_clicks(lesson, number)
        assert lesson.errors() == []


def check_place_and_clicks(lesson: Page, number: int) -> None:
    """The second cluster shows nothing of the first one, a reload changes nothing, and fast clicks skip nothing."""
    until(lambda: lesson.count("#timeline [data-seq]"), "its events")
    assert "class" not in lesson.text("#view") + lesson.text("#timeline") + lesson.text("#happened")
    lesson.driver.refresh()
    until(lambda: f"Step {number} of" in lesson.text("#lesson"), "the same step after a reload")
    until(lambda: lesson.count("#lesson-next:not([disabled])"), "the next step")
    button = lesson.driver.find_element(By.ID, "lesson-next")
    ActionChains(lesson.driver).double_click(button).perform()
    until(lambda: f"Step {number + 1} of" in lesson.text("#lesson"), "one step for a double click")
    click = "for (let i = 0; i < 5; i += 1) document.getElementById('lesson-back').click()"
    lesson.driver.execute_script(click)
    until(lambda: f"Step {number} of" in lesson.text("#lesson"), "one step for clicks while the page is busy")
    lesson.press("#lesson-next")
    until(lambda: f"Step {number + 1} of" in lesson.text("#lesson"), "that it is not stuck")


def _beyond(lesson: Page) -> int:
    """The number of events that the timeline shows after the moment."""
    script = """
        const at = document.querySelector("#timeline .now").getBoundingClientRect().left + 6;
        const marks = [...document.querySelectorAll("#timeline [data-seq]")];
        return marks.filter((each) => each.getBoundingClientRect().left > at).length;
    """
    return int(lesson.driver.execute_script(script))


def _answer(lesson: Page) -> str:
    """The recording's answer to the open question."""
    ask = """
        const done = arguments[0], said = document.getElementById("lesson").textContent;
        const step = Number(/Step (\\d+)/.exec(said)[1]) - 1;
        const token = new URLSearchParams(location.hash.slice(1)).get("token");
        fetch(`api-question?step=${step}&token=${token}`)
          .then((each) => each.json()).then((told) => done(told.question.answer)).catch((e) => done(String(e)));
    """
    return str(lesson.driver.execute_async_script(ask))


def test_a_cluster_of_apache_kafka_is_watched(peer_zookeeper: str, tmp_path: Path) -> None:
    """The cluster has Scala consumers in ZooKeeper and a group of its coordinator. The page shows owners, watermarks,
    lag and throughput of both, although none of them writes traces."""
    kafka = targets.start(targets.APACHE_KAFKA, peer_zookeeper, tmp_path / "kafka", chroot="watched")
    with ExitStack() as closing:
        closing.callback(kafka.stop)
        kafka.create_topic("seen", partitions=4)
        group = MixedGroup(kafka, "scala", "seen", 4, tmp_path / "group")
        closing.callback(group.close)
        group.join(MAGIC_1_VERSION)
        module = "tests.integration.groups.broker_group_member"
        arguments = ("confluent-kafka", kafka.bootstrap, "loader", "seen", "anna", "cooperative-sticky")
        member = subprocess.Popen([sys.executable, "-m", module, *arguments], env=ENVIRON)
        closing.callback(member.wait)
        closing.callback(member.kill)
        page = closing.enter_context(page_of("web", "--port", "0", "--zookeeper", kafka.zookeeper))
        until(lambda: "broker 0 leads" in page.roles(), "the leaders")
        until(lambda: page.count("#view [data-group=scala]") == 1, "the Scala consumer")
        until(lambda: page.count("#view [data-group=loader]") == 1, "the coordinator's member")
        until(lambda: page.count("#view [data-heart=heard]") == 2, "the hearts of the broker and the consumer")
        until(lambda: page.text("#timeline .measure").count("lag ") == 2, "the lag of both groups")
        until(lambda: "records/s" in page.text("#timeline .measure"), "the throughput")
        numbers = until(lambda: _numbers(page, "seen-0"), "a high watermark that rises")
        until(lambda: any(each > numbers[0] for each in _numbers(page, "seen-0")), "more records")
        assert page.count("#break[hidden]") == 1, "nobody can break it from here"
        group.join(MAGIC_1_VERSION)
        until(lambda: page.count("#view [data-group=scala]") == 2, "the other Scala consumer")
        member.terminate()
        until(lambda: page.count("#view [data-group=loader]") == 0, "the coordinator's member gone")
        page.press("#view-tree")
        watched = "#view tr[data-path='/controller'] td:last-child"
        until(lambda: "broker-0" in page.text(watched), "whose watch is there, as ZooKeeper tells")
        assert page.errors() == []


def _numbers(page: Page, tp: str) -> list[int]:
    """The high watermark, committed offset and lag of a partition, as far as the page shows them."""
    script = """
        const rows = [...document.querySelectorAll("#view tr")];
        return rows.filter((row) => row.cells[0]?.textContent === arguments[0])
            .flatMap((row) => [...row.querySelectorAll("td.number")].map((cell) => cell.textContent))
            .filter(Boolean).map(Number);
    """
    return list(page.driver.execute_script(script, tp))
