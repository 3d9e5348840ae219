"""The page's slow motion of a failover."""

from selenium.webdriver.common.keys import Keys

from tests.peers.web.web_browser import Page, until


def check_slow_motion(page: Page) -> None:
    """The failover begins with the act, and continues to the new leader."""
    page.press("[data-key=slowly]")
    first = until(lambda: page.text("#slowly [role=status]"), "the first step")
    assert first.endswith(": You kill broker 2."), page.text("#slowly")
    while page.count("[data-slowly=next]:not([disabled])"):
        page.press("[data-slowly=next]")
    steps = page.text("ol.slowly li")
    for part in ("deletes /brokers/ids/2", "watch fires /", "writes /brokers/topics/seen/partitions/0/state"):
        assert part in steps, "arrows that name their znodes"
    assert "LeaderAndIsr answered, from broker-" in steps, steps
    page.keys(Keys.ESCAPE)
    until(lambda: page.count("#slowly[hidden]"), "the event")
