"""The page's daily work in a real Chromium: lag with ages, a reset of offsets, and the configuration of a topic."""

import re
import sys
from collections.abc import Iterator
from functools import partial
from os import environ

import pytest
from selenium.webdriver.common.keys import Keys

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.admin.group_admin import CommittedOffset
from kafka_zk.clients.producer.blocking import BlockingProducer
from tests.peers import targets
from tests.peers.web.web_browser import Page, UpCluster, cluster_with_page, page_of, until
from tests.terminal import Terminal

pytestmark = pytest.mark.peers

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
SHOWING = re.compile(r"show\s+records;\s+keep\s+it\s+to\s+yourself:\s+(http://\S+&values=\S+)")
RESET = "#view [data-lag=board] h2 button"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpCluster]:
    """A cluster of one broker. The broker group board has read two of five records of orders-0, and all of orders-1."""
    with cluster_with_page(tmp_path_factory.mktemp("web-operations") / "cluster", "--brokers", "1") as up:
        with BlockingAdmin(bootstrap_servers=up.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", assignment={0: [0], 1: [0]}, configs={"retention.ms": "3600000"})])
            with BlockingProducer(bootstrap_servers=up.bootstrap) as producer:
                for future in [producer.send("orders", b"v", partition=0) for _ in range(5)]:
                    future.result()
            admin.groups.commit("board", {T0: CommittedOffset(2), T1: CommittedOffset(0)})
        yield up


@pytest.fixture
def page(cluster: UpCluster) -> Iterator[Page]:
    opened = Page(cluster.url)
    yield opened
    opened.close()


def cells(page: Page, partition: str) -> list[str]:
    """A row of the lag table; empty if there is none."""
    found = "[...(document.querySelector(`[data-partition='${arguments[0]}']`)?.cells ?? [])]"
    return list(page.driver.execute_script(f"return {found}.map((each) => each.textContent)", partition))


def choose(page: Page, selector: str, value: str) -> None:
    """Choose an item of a list, as a person does."""
    script = (
        "const found = document.querySelector(arguments[0]); found.value = arguments[1];"
        "for (const each of ['input', 'change']) found.dispatchEvent(new Event(each, {bubbles: true}));"
    )
    page.driver.execute_script(script, selector, value)


def offsets(cluster: UpCluster) -> list[int]:
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        committed = admin.groups.committed("board")
    return [committed[tp].offset for tp in (T0, T1)]


def test_lag_has_ages_and_a_reset_shows_its_plan_first(cluster: UpCluster, page: Page) -> None:
    """With the keyboard alone, and axe-core finds nothing in either scheme."""
    until(lambda: page.count("#view-lag:not([hidden])"), "the view")
    page.press("#view-lag")
    row = until(lambda: cells(page, "orders-0"), "the group")
    assert row[1] == "2" and row[3:5] == ["5", "3"] and row[5].endswith("s"), row
    assert cells(page, "orders-1")[4:] == ["0", "none"]
    assert "Brokers were last asked" in page.text("#view .lag")
    assert "reset offsets…" in page.walk(80), "the button can be reached"
    page.focus(RESET)
    page.keys(Keys.ENTER)
    until(lambda: page.count("#reset[open]"), "the dialog")
    found = []
    for scheme in ("light", "dark"):
        page.screen(1280, 760, scheme)
        page.focus("#reset [data-act=plan]")
        page.keys(Keys.ENTER)
        until(lambda: page.count("#reset [data-act=do]"), "the plan")
        found += [f"{scheme} {each}" for each in page.violations()]
    assert not found, "\n".join(found)
    until(lambda: page.count("#reset [data-act=do]"), "the plan")
    assert "1 of 2 offsets would change. Nothing has been changed yet." in page.text("#reset")
    assert page.text("#reset [data-act=do]") == "reset 2 offsets as User:ANONYMOUS"
    assert offsets(cluster) == [2, 0]
    page.focus("#reset [data-act=do]")
    page.keys(Keys.ENTER)
    until(lambda: "2 offsets were reset, as User:ANONYMOUS." in page.text("#reset"), "the outcome")
    assert offsets(cluster) == [0, 0]
    page.keys(Keys.ESCAPE)
    until(lambda: not page.count("#reset[open]"), "the closed dialog")
    until(lambda: cells(page, "orders-0")[4:5] == ["5"], "the new lag")
    until(lambda: "reset-offsets group board" in page.text("#happened"), "the act")
    page.wind(0.5)
    until(lambda: page.count("#view .lag") and not page.count(RESET), "the past, which cannot be changed")
    assert page.violations() == [] and page.errors() == []


def test_a_refused_reset_is_a_sentence_and_a_plan_is_forgotten_if_the_choice_changes(page: Page) -> None:
    page.press("#view-lag")
    until(lambda: page.count(RESET), "the group")
    page.press(RESET)
    page.press("#reset [data-act=plan]")
    until(lambda: page.count("#reset [data-act=do]"), "the plan")
    choose(page, "#reset [name=kind]", "zookeeper")
    assert not page.count("#reset [data-act=do]")
    page.press("#reset [data-act=plan]")
    until(lambda: "there is no group board in ZooKeeper" in page.text("#reset .bad"), "the refusal")
    page.press("#reset [data-act=close]")


LATE_PLAN = """
const done = arguments[0];
import("/act_dialog.js").then(async ({ ActDialog }) => {
  const answers = [], dialog = new ActDialog("late", () => new Promise((resolve) => answers.push(resolve)));
  const field = Object.assign(document.createElement("input"), { name: "value", value: "a" });
  dialog.open("Late", [field], { request: () => ({ value: field.value }), action: "act", done: () => "It was done.",
    planned: (told) => ({ shown: [], label: told.plan }) });
  const shown = () => dialog.told.textContent, turn = () => new Promise((resolve) => setTimeout(resolve, 0)), seen = [];
  const edit = (text) => { field.value = text; field.dispatchEvent(new Event("input", { bubbles: true })); };
  dialog.plan({});
  edit("b");
  answers[0]({ plan: "plan of a", notes: [] });
  await turn();
  seen.push(shown());
  dialog.plan({});
  answers[1]({ plan: "plan of b", notes: [] });
  await turn();
  seen.push(shown());
  dialog.carryOut("plan of b");
  edit("c");
  answers[2]({ notes: [] });
  await turn();
  seen.push(shown());
  dialog.element.remove();
  done(seen);
});
"""
LATE_ANSWER = """
const done = arguments[0];
import("/configs.js").then(async ({ ConfigsPanel }) => {
  const answers = [];
  const ask = () => new Promise((resolve, reject) => answers.push({ resolve, reject })), panel = new ConfigsPanel(ask);
  const told = (topic) => ({ topics: ["a", "b"], topic, principal: "P", asked_ms: 1, notes: [],
    configs: [{ name: `of-${topic}`, value: "1", source: "DEFAULT_CONFIG" }] });
  const turn = () => new Promise((resolve) => setTimeout(resolve, 0)), seen = [];
  panel.load(); answers[0].resolve(told("")); await turn(); answers[1].resolve(told("a")); await turn();
  panel.load(); panel.topic.value = "b"; panel.load();
  answers[3].resolve(told("b")); await turn(); answers[2].resolve(told("a")); await turn();
  seen.push(panel.topic.value, panel.rows.querySelector("[data-config]").dataset.config);
  panel.topic.value = "a"; panel.load(); answers[4].reject(new Error("no broker")); await turn();
  seen.push(panel.rows.childElementCount);
  done(seen);
});
"""


BEYOND = """
const done = arguments[0];
import("/lag.js").then(({ lagView }) => {
  const row = { group: "g", partition: "t-0", committed: 100, end: 5, lag: 0,
    unknown_ms: null, unchanged_is_exact: true, behind_ms: null };
  const told = (unchanged_ms) => ({ sampled_ms: 1, age_ms: 0, turns: 1, count: 1, is_whole: false,
    rows: [{ ...row, unchanged_ms }] });
  done([60000, 1000].map((unchanged) => lagView(told(unchanged), 1, "", null).textContent));
});
"""


def test_an_offset_that_stays_beyond_the_end_is_named_and_so_is_a_table_that_is_not_whole(page: Page) -> None:
    stays, passes = page.driver.execute_async_script(BEYOND)
    assert "the offset is beyond the end by 95" in stays and "beyond the end" not in passes
    assert "too many partitions to compare all of them" in stays


def test_a_late_plan_is_not_shown_for_another_choice_but_the_outcome_of_an_act_always_is(page: Page) -> None:
    seen = page.driver.execute_async_script(LATE_PLAN)
    assert seen == ["", "plan of b", "It was done. The timeline shows it as your act."]


def test_a_late_answer_about_another_topic_is_dropped_and_a_failure_leaves_no_old_values(page: Page) -> None:
    assert page.driver.execute_async_script(LATE_ANSWER) == ["b", "of-b", 0]


def test_a_topics_configuration_is_shown_and_changed(cluster: UpCluster, page: Page) -> None:
    until(lambda: page.count("#view-configs:not([hidden])"), "the view")
    page.press("#view-configs")
    retention = "[data-config='retention.ms']"
    until(lambda: page.count("#configs-topic option"), "the topics")
    choose(page, "#configs-topic", "orders")
    until(lambda: "3600000this topic" in page.text(retention), "its configuration")
    assert "as User:ANONYMOUS" in page.text(".configs [role=status]")
    page.focus("#configs-own")
    page.keys(Keys.SPACE)
    until(lambda: page.count("[data-config]") == 1, "only what is set for the topic")
    found = []
    for scheme in ("light", "dark"):
        page.screen(1280, 760, scheme)
        found += [f"{scheme} {each}" for each in page.violations()]
    page.focus(f"{retention} button")
    page.keys(Keys.ENTER)
    until(lambda: page.count("#config[open]"), "the dialog")
    page.type("#config [name=value]", "7200000")
    page.keys(Keys.ENTER)
    until(lambda: page.count("#config [data-act=do]"), "the plan")
    found += page.violations()
    assert not found, "\n".join(found)
    assert "now 3600000, then 7200000" in page.text("#config")
    page.press("#config [data-act=do]")
    until(lambda: "retention.ms was changed" in page.text("#config"), "the outcome")
    until(lambda: "7200000this topic" in page.text(retention), "the new value")
    page.keys(Keys.ESCAPE)
    until(lambda: "set-config topic orders" in page.text("#happened"), "the act")
    assert page.errors() == []


def test_a_record_is_sent_and_shown_only_with_the_token_for_records(cluster: UpCluster, page: Page) -> None:
    """The page of up does not show records. Another page of the same cluster was asked to."""
    until(lambda: page.count("#view-configs:not([hidden])"), "the page")
    assert page.count("#view-messages[hidden]") == 1
    page.press("#view-configs")
    until(lambda: page.count("[data-config]"), "the topics")
    choose(page, "#configs-topic", "orders")
    page.focus("#configs-send")
    page.keys(Keys.ENTER)
    until(lambda: page.count("#record[open]"), "the dialog")
    page.type("#record [name=value]", "hello, reader")
    page.focus("#record [data-act=plan]")
    page.keys(Keys.ENTER)
    until(lambda: page.count("#record [data-act=do]"), "the plan")
    found = page.violations()
    page.press("#record [data-act=do]")
    until(lambda: "it was sent as User:ANONYMOUS" in page.text("#record"), "the outcome")
    page.keys(Keys.ESCAPE)
    options = ("--port", "0", "--zookeeper", cluster.zookeeper, "--allow-values")
    with Terminal([sys.executable, "-m", "kafka_zk", "web", *options], environ) as terminal:
        told = until(lambda: terminal.read_until("&values=") and SHOWING.search(terminal.text), "the address")
        page.driver.get("about:blank")
        page.driver.get(told[1])
        until(lambda: page.count("#view-messages:not([hidden])"), "the view")
        assert "values=" not in page.driver.current_url
        page.press("#view-messages")
        until(lambda: page.count("#messages-topic option"), "the topics")
        choose(page, "#messages-topic", "orders")
        until(lambda: "hello, reader" in page.text("[data-record]"), "the record")
        for scheme in ("light", "dark"):
            page.screen(1280, 760, scheme)
            found += [f"{scheme} {each}" for each in page.violations()]
        choose(page, "#messages-value", "long")
        until(lambda: "not a long" in page.text("[data-record]"), "its bytes")
        page.focus("#messages-from")
        page.keys("4")
        page.keys(Keys.ENTER)
        until(lambda: page.count("[data-record='0-4']") and not page.count("[data-record='0-3']"), "the offset")
        assert page.errors() == []
    assert not found, "\n".join(found)


def test_they_fit_a_narrow_window(page: Page) -> None:
    page.screen(390, 844, "light")
    for view, there in (("#view-lag", ".lag table"), ("#view-configs", ".configs table")):
        until(partial(page.count, f"{view}:not([hidden])"), view)
        page.press(view)
        until(partial(page.count, there), there)
        script = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.driver.execute_script(script) <= 0, f"{view} is wider than the window"
        assert page.violations() == []


def test_a_page_that_only_reads_offers_no_change(cluster: UpCluster) -> None:
    page = Page(cluster.url.partition("&break=")[0])
    try:
        until(lambda: page.count("#view-lag:not([hidden])"), "the view")
        page.press("#view-lag")
        until(lambda: cells(page, "orders-0"), "the group")
        assert not page.count(RESET)
        page.press("#view-configs")
        until(lambda: page.count("[data-config]"), "a configuration")
        assert not page.count("[data-config] button")
    finally:
        page.close()


@pytest.mark.weekly
def test_a_cluster_of_apache_kafka_is_read_but_not_changed(
    peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kafka = targets.start(targets.APACHE_KAFKA, peer_zookeeper, tmp_path_factory.mktemp("kafka"), chroot="operations")
    try:
        kafka.create_topic("orders", partitions=2)
        with BlockingAdmin(bootstrap_servers=kafka.bootstrap) as admin:
            admin.groups.commit("board", {T0: CommittedOffset(0)})
        with page_of("web", "--port", "0", "--zookeeper", kafka.zookeeper) as page:
            until(lambda: page.count("#view-lag:not([hidden])"), "the view")
            page.press("#view-lag")
            until(lambda: cells(page, "orders-0"), "the group")
            assert not page.count(RESET)
            page.press("#view-configs")
            until(lambda: page.count("[data-config='retention.ms']"), "a configuration of Apache Kafka's")
            assert page.errors() == []
    finally:
        kafka.stop()
