"""The lesson runs with and without a reader, its statements are true, and its text equals the transcript in
tests/scenarios.
"""

import json
import re
import time
from typing import Any

import pytest

from tests.integration.commands.transcripts import compare, normalized
from tests.integration.processes import kafka_zk, on_terminal

pytestmark = [pytest.mark.integration, pytest.mark.long]
TIMEOUT_S = 300
PROMPT = "[q] quit "
READING_S = 1.5


def transcript(text: str) -> str:
    """A chapter's text without the parts that depend on the machine: the bars, and whether a claim came before the
    release.
    """
    unfolded = re.sub(r"(→.*?) *\r?\n {5,}(?=\S)", r"\1 ", text)
    return _one_line_a_change(normalized(
        unfolded,
        (r"^ +\d+(\.\d+)? s( +\d+(\.\d+)? s)* *$", "             TIMES"),
        (r"(^ +\d+\.\d s  .*\n( {5,}\S.*\n)*)+", "   EVENTS\n"),
        (r'"timestamp":"\d+"', '"timestamp":"TIME"'),
        (r'(^   /controller  .*"brokerid":)[12]\b', r"\1NEW"),
        (r"\bsession 0x[0-9a-f]+", "session ID"),
        (r"^ *⚡ owners.*\n(   A partition is free.*\n(   [^→⚡\s].*\n)?)?", ""),
        (r"^\n? *\[Enter\] go on.*\n", ""),
        (r"^(   (lesson|news)-\d)  [a-z·']+$", r"\1  PICTURE"),
        (r"^ +(-?\d+) +\d+  ( *|[█▏▎▍▌▋▊▉]+ *)\d+  ( *|[█▏▎▍▌▋▊▉]+ *)\d+(  ←.*)?$", r"   \1  BARS\4"),
        (r"^   (orders-\d|requests)( +\d+){6}$", r"   \1  NUMBERS"),
        (r"(again per kill): eager \d+, cooperative \d+", r"\1: eager N, cooperative N"),
        (r"\b(HOST:PORT)\b.*", r"\1"),
        (r"took \d+\.\d s, [\d,]+ KB a second", "took S s, N KB a second"),
        (r"\b(config_change_)\d+", r"\1N"),
    ))  # fmt: skip


def _one_line_a_change(text: str) -> str:
    """Combine consecutive lines about watches of the same znode: on a slow machine, the members' watches fire one after
    the other, and each gets a line.
    """
    changes: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        change, found, members = line.partition(" changed: ")
        if found and changes and changes[-1][0] == change:
            changes[-1][1].extend(members.split(", "))
        else:
            changes.append((change, members.split(", ") if found else []))
    return "".join(
        f"{change} changed: {', '.join(sorted(members))}\n" if members else f"{change}\n" for change, members in changes
    )


def test_what_the_lesson_shows() -> None:
    """One of five consumers is idle and takes over; each of two groups gets everything; the partitions that a member of
    a cooperative group keeps are never silent.
    """
    done = kafka_zk("lesson", "--json", timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    first, second, third, fourth = (report[f"chapter {number}"] for number in (1, 2, 3, 4))
    assert first["idle"] not in (None, first["left"])
    assert first["shares_after"][first["idle"]] == 1 and sum(first["shares_after"].values()) == 4
    assert second["read"] == {"cats": 20, "dogs": 20}
    eager, cooperative = third["eager"], third["cooperative"]
    assert (eager["stopped"], eager["never_stopped"]) == (6, 0)
    assert (cooperative["stopped"], cooperative["never_stopped"]) == (2, 4)
    assert cooperative["longest_silence_of_others_ms"] == 0
    assert eager["lag_after"] > 2 * eager["lag_before"], "the lag did not grow clearly after the kill"
    assert eager["lag_after"] > 2 * cooperative["lag_after"], "the picture does not show what the chapter says"
    assert [*fourth] == ["join", "leave", "kill"]
    for change in fourth.values():
        old, new = change["ZooKeeper"], change["broker"]
        assert (old["why"], old["moved"]) == (new["why"], new["moved"]), "the two types of groups saw different changes"
        assert len(old["silent_ms"]) == len(new["silent_ms"]) == 6, "one of the groups was not eager"
        assert 0 < new["requests"] < old["requests"]
    _check_brokers(report)


def _check_brokers(report: dict[str, Any]) -> None:
    """Check the chapters about brokers."""
    death = report["chapter 5"]
    assert (death["killed"], death["controller"], death["leader"], death["leader_epoch"]) == (1, 0, 0, 1)
    assert (death["isr"], death["isr_at_the_end"], death["record_offset"]) == ([0, 2], [0, 1, 2], 1)
    assert "BrokerGone" in death["order"]  # the lesson sees this perhaps after the controller does
    told = [kind for kind in death["order"] if kind != "BrokerGone"]
    assert told[0] == "LeadersElected"
    assert sorted(told[1:]) == ["RequestSent", "RoleChanged"]  # two processes, perhaps in the same millisecond
    acks = report["chapter 6"]
    assert acks["acks=1"] == {"acknowledged": {"b": 1, "c": 1}, "read": ["a", "c"]}, "acks=1 did not lose exactly b"
    assert acks["acks=all"] == {"outcomes": ["offset 0", "NOT_ENOUGH_REPLICAS", "offset 1"], "read": ["d", "f"]}
    unclean = report["chapter 7"]
    assert (unclean["leaderless_isr"], unclean["elected"], unclean["isr_at_the_end"]) == ([1], 0, [0, 1, 2])
    assert unclean["leader_epochs"][0] < unclean["leader_epochs"][1]
    assert (unclean["d"], unclean["read"]) == (1, ["a", "d"]), "the election did not lose exactly b and c"
    zombie = report["chapter 8"]
    assert zombie["new_controller"] in (1, 2) and zombie["new_epoch"] > zombie["old_epoch"]
    assert zombie["zookeeper"].startswith("/controller_epoch is not at version ")
    assert (zombie["broker"], zombie["told_in_trace"]) == ("STALE_CONTROLLER_EPOCH", True)
    assert (zombie["leader"], zombie["isr"]) == (1, [0, 1, 2]), "the late orders had an effect"
    logs = report["chapter 9"]
    assert (logs["dead"]["2"], logs["leader"]["2"], logs["truncated_to"]) == ("c", "d", 2)
    assert logs["back"] == logs["leader"] and logs["epochs"]["0"] == 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chapter", range(1, 11))
def test_a_chapter_in_a_pipe(chapter: int) -> None:
    """The output is plain text with one line per change."""
    done = kafka_zk("lesson", "--no-pause", "--chapter", str(chapter), timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    compare(f"lesson-{chapter}", transcript(done.stdout))


def test_every_step_for_who_asks() -> None:
    """The option -v shows every step."""
    done = kafka_zk("lesson", "--no-pause", "--chapter", "2", "-v", timeout_s=TIMEOUT_S)
    assert re.search(r"\d\.\d{3}  anna        claims news-0,1\n", done.stdout), done.stderr


def test_a_reader_on_a_terminal() -> None:
    """The lesson stops rarely, does not count the reader's time as silence, obeys the keys s, b and q, and fits the
    terminal's width.
    """
    with on_terminal("lesson") as terminal:
        at, stops = 0, 0
        while "2. Two groups" not in terminal.text:
            at = terminal.read_until(PROMPT, at)
            stops += "2. Two groups" not in terminal.text
            last = terminal.text[:at].rpartition("⚡")[2]
            if last.startswith(" owners"):
                time.sleep(READING_S)  # the reader takes this much time while two partitions are silent
            if "2. Two groups" not in terminal.text:
                terminal.press("\r")
        assert stops <= 8
        silences = [int(ms) for ms in re.findall(r"silent (?:at most )?(\d+) ms", terminal.text)]
        assert silences and max(silences) < READING_S * 1000
        first_chapter = terminal.text
        terminal.press("b")
        at = terminal.read_until("1. Five consumers", len(first_chapter))
        at = terminal.read_until(PROMPT, at)
        terminal.press("s")
        at = terminal.read_until("2. Two groups", at)
        at = terminal.read_until(PROMPT, at)
        terminal.press("q")
        assert terminal.read_to_the_end() == 0
    assert max(map(len, terminal.text.splitlines())) <= 80
    compare("lesson-1-terminal", transcript(first_chapter.partition("\n2. Two groups")[0]))
