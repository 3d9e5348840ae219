"""Pictures of every view of the flight recorder's page, for docs/how-to/web.md.

    python -m tests.peers.web.web_screenshots docs/web

reads a chapter of the lesson, shows a recording of 50 brokers, starts a cluster, a producer and two groups, lets a
member and a broker die, and takes the pictures in Chromium.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryDirectory

from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.recorder.recording.recording import Recording
from tests.kafka_zk.recorder.web.large_cluster import large_cluster
from tests.peers.web.palette_png import screenshot
from tests.peers.web.web_browser import Page, cluster_with_page, page_of, until, until_lost

TOPIC = "flights"
PARTITIONS = {number: [number % 3, (number + 1) % 3, (number + 2) % 3] for number in range(6)}
SETTLED_S = 2.5
"""For this many seconds, the page draws the arrows of the last events and refreshes the list of events."""


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _take_lesson(folder)
    _take_records(folder)
    _take_large(folder)
    with TemporaryDirectory() as data, ExitStack() as closing:
        url, bootstrap, zookeeper, _ = closing.enter_context(cluster_with_page(Path(data) / "cluster"))
        with BlockingAdmin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, assignment=PARTITIONS)])
        closing.enter_context(_producer(bootstrap))
        groups = [["--zookeeper", zookeeper, "--group", "board"]] * 2
        groups.append(["--bootstrap-server", bootstrap, "--group", "loader"])
        members = [closing.enter_context(_process("consume", "--topic", TOPIC, *each)) for each in groups]
        page = Page(url)
        closing.callback(page.close)
        _take(page, members, folder)


def _take_lesson(folder: Path) -> None:
    with page_of("lesson", "--web", "0", "--chapter", "1") as page:
        until(lambda: "begin" in page.text("#lesson-next"), "the lesson")
        while not ("dora joins" in page.text("#lesson .step") and page.count("[data-choice]")):
            until(lambda: page.count("#lesson-next:not([disabled])"), "the next step")
            page.press("#lesson-next")
            time.sleep(SETTLED_S / 5)
        (folder / "lesson.png").write_bytes(screenshot(page.driver))


def _take_records(folder: Path) -> None:
    with page_of("web", "--port", "0", "zombie-controller") as page:
        until_lost(page)
        (folder / "records.png").write_bytes(screenshot(page.driver))


def _take_large(folder: Path) -> None:
    with TemporaryDirectory() as data:
        file = Path(data) / "outage.sqlite"
        recording = Recording(file)
        recording.add([], large_cluster(50, 40, 50))
        recording.close()
        with page_of("web", "--port", "0", str(file)) as page:
            until(lambda: page.count("#view tr.topic"), "the cluster")
            page.show_all_time()
            time.sleep(SETTLED_S)
            (folder / "large.png").write_bytes(screenshot(page.driver))


def _take(page: Page, members: list[Popen[bytes]], folder: Path) -> None:
    def shot(name: str) -> None:
        time.sleep(SETTLED_S)
        (folder / f"{name}.png").write_bytes(screenshot(page.driver))

    until(lambda: page.count("[data-group=loader]"), "the group of the broker")
    until(lambda: page.count("[data-group=board]") == 2, "both members")
    shot("cluster")
    members[0].kill()
    until(lambda: page.count("[data-group=board]") == 1, "the member to be gone")
    _wind_into_rebalance(page)
    page.press("[data-key='leader flights-']")  # folds the leaders, so that the owners are in the picture
    page.show_time("10")
    shot("rebalance")
    page.show_time("60")
    page.press("[data-key='leader flights-']")
    page.press("#live")
    page.press("#break summary")
    page.press("[data-broker='1']")
    page.press("[data-break=kill]")
    until(lambda: "moved to other leaders" in page.text("#happened"), "the failover")
    shot("broker-killed")
    failover = page.text("[data-episode]").split("\n")
    page.press("[data-episode]", next(number for number, text in enumerate(failover) if "lost its session" in text))
    until(lambda: "Effects" in page.text("#details"), "the failover's first event")
    shot("why")
    page.press("#view-tree")
    shot("znodes")
    page.press("#view-help")
    shot("help")
    page.press("#view-cluster")
    page.screen(1280, 760, "dark")
    shot("dark")


def _wind_into_rebalance(page: Page) -> None:
    """Rewind to the moment at which partitions of the group board have no owner."""

    def lines() -> list[str]:
        return page.text("[data-episode]").split("\n")

    def numbers() -> list[int]:
        return [number for number, text in enumerate(lines()) if "board" in text]

    until(lambda: numbers(), "the rebalance")
    page.press("[data-episode]", numbers()[0])
    until(lambda: "Effects" in page.text("#details"), "its first event")

    def is_within() -> bool:
        if "without an owner" in page.text("#view"):
            return True
        page.press("#next")
        return False

    until(is_within, "a partition without an owner")


@contextmanager
def _producer(bootstrap: str) -> Iterator[None]:
    """Start a producer of ten records a second."""
    lines = "import time\nwhile True: print('KZ42 boarding', flush=True); time.sleep(0.1)"
    with Popen([sys.executable, "-c", lines], stdout=PIPE) as source:
        command = [sys.executable, "-m", "kafka_zk", "produce", "--bootstrap-server", bootstrap, "--topic", TOPIC]
        with Popen(command, stdin=source.stdout, stdout=DEVNULL, stderr=DEVNULL) as producer:
            try:
                yield
            finally:
                source.kill()
                producer.kill()


@contextmanager
def _process(*arguments: str) -> Iterator[Popen[bytes]]:
    with Popen([sys.executable, "-m", "kafka_zk", *arguments], stdout=DEVNULL, stderr=DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tests.peers.web.web_screenshots FOLDER")
    main(Path(sys.argv[1]))
