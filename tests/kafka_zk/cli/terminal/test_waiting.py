"""When a command reports what it waits for, and the report's form on a terminal and in a pipe."""

from kafka_zk.cli.terminal.waiting import WaitingNotice, wrapped

ERASE = "\r\x1b[K"
FIVE_SECONDS = "waiting for ZooKeeper, at most 5 s"


def test_nothing_is_said_within_the_first_second() -> None:
    notice = WaitingNotice(80, 0)
    assert notice.begin("ZooKeeper", 5, 0) == ""
    assert notice.tick(0.4) == ""
    assert notice.end() == ""


def test_a_terminal_sees_one_line_that_counts_and_vanishes() -> None:
    notice = WaitingNotice(80, 0)
    notice.begin("ZooKeeper", 5, 0)
    assert notice.tick(1) == f"{FIVE_SECONDS} (1.0 s)"
    assert notice.tick(1.2) == f"{ERASE}{FIVE_SECONDS} (1.2 s)"
    assert notice.end() == ERASE
    assert notice.tick(3) == ""


def test_a_pipe_gets_one_plain_line_for_each_thing() -> None:
    notice = WaitingNotice(None, 0)
    notice.begin("ZooKeeper", 5, 0)
    assert notice.tick(1) == f"{FIVE_SECONDS}\n"
    assert notice.tick(2) == ""
    notice.begin("the brokers", None, 2)
    assert notice.tick(2.1) == "waiting for the brokers, until Ctrl-C\n"
    assert notice.end() == notice.end() == ""
    notice.begin("ZooKeeper", 5, 3)
    assert notice.tick(9) == "", "the report is not repeated"


def test_many_short_waits_are_one_long_silence() -> None:
    notice = WaitingNotice(None, 0)
    for start_s in (0.0, 0.4, 0.8):
        notice.begin(f"step {start_s}", 5, start_s)
        said = notice.tick(start_s + 0.3)
        notice.end()
    assert said == "waiting for step 0.8, at most 5 s\n"


def test_output_begins_the_silence_anew_and_removes_the_line() -> None:
    notice = WaitingNotice(80, 0)
    notice.begin("ZooKeeper", 5, 0)
    notice.tick(1)
    assert notice.told(1.5) == ERASE
    assert notice.tick(1.9) == ""
    assert notice.tick(2.2) == f"{FIVE_SECONDS} (2.2 s)"


def test_what_does_not_fit_is_wrapped_between_words_and_said_once() -> None:
    notice = WaitingNotice(20, 0)
    notice.begin("127.0.0.1:12345,127.0.0.1:12346", 5, 0)
    assert notice.tick(1) == "waiting for\n127.0.0.1:12345,127.0.0.1:12346,\nat most 5 s\n"
    assert notice.tick(2) == ""
    assert wrapped("a broker", None) == ["a broker"]
