"""``kafka-zk replay``: play a scenario of the simulator and print its events."""

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_zk.cli.cluster.strategies import CHANGES, compare
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import json_option
from kafka_zk.cli.terminal.output import note, print_json, print_rows, say

if TYPE_CHECKING:
    from kafka_zk.sim.replay.player import Line, Replayed
    from kafka_zk.sim.scenarios.scenario import Scenario


@click.command("replay", short_help="Play a scenario of the simulator: outages, step by step, and what prevents them.")
@click.argument("scenario", required=False, metavar="[SCENARIO]")
@click.option("--write", is_flag=True, help="Write the trace into the file; review the difference before you keep it.")
@click.option("--phrases", is_flag=True, help="List the phrases that a scenario can use.")
@click.option(
    "--strategies",
    "change",
    type=click.Choice(CHANGES),
    help="Compare the assignment strategies of groups: a member joins, leaves, dies, or joins beside a slow one.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every event, including routine ones.")
@json_option
def command(scenario: str | None, write: bool, phrases: bool, change: str | None, verbose: bool, as_json: bool) -> None:
    """Play a scenario: real brokers, producers and groups, on a simulated clock, network, disk and ZooKeeper.

    SCENARIO is a file or the name of a built-in scenario; without SCENARIO, the built-in ones are listed. Most are
    famous outages, played twice: with the old rule that caused the outage, and with kafka-zk's rule. A minute of the
    cluster's time takes a second or two, and every run is the same.

    \b
    kafka-zk replay
    kafka-zk replay zombie-controller
    kafka-zk replay --phrases
    kafka-zk replay --write my-outage.txt
    kafka-zk replay --strategies slow

    A line begins with the time in seconds. "> " is an action of the scenario, "!! " a violation that the judges found,
    "ok: " an expectation that held. SAFEGUARD marks what prevented harm. The exit code is 1 if an expectation failed,
    or if the trace differs from the one in the file, and 2 if the scenario is invalid.
    """
    if change is not None:
        if scenario is not None or write or phrases or verbose:
            raise click.UsageError("--strategies can be combined only with --json")
        compare(change, as_json)
    elif phrases:
        _show_phrases(as_json)
    elif scenario is None:
        _list(as_json)
    else:
        _replay(scenario, write, verbose, as_json)


def _replay(name: str, write: bool, verbose: bool, as_json: bool) -> None:
    from twisted.logger import globalLogBeginner

    from kafka_zk.sim.replay.player import replay
    from kafka_zk.sim.scenarios import library
    from kafka_zk.sim.scenarios.scenario import parse, with_trace
    from kafka_zk.sim.scenarios.statements import ScenarioError

    path = library.find(name)
    if path is None:
        near = difflib.get_close_matches(name, library.names(), 1)
        hint = f"did you mean {near[0]}?" if near else "kafka-zk replay lists the built-in ones."
        raise CommandFailed(f"{name} is neither a file nor a built-in scenario; {hint}")
    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)  # the judges receive the errors
    try:
        scenario = parse(_text(path))
        show = _JsonLines() if as_json else _TextLines(scenario)
        replayed = replay(scenario, show.tell, everything=verbose)
    except ScenarioError as error:
        raise click.UsageError(f"{path}: {error}") from None
    if write:
        path.write_text(with_trace(scenario, replayed.trace))
    difference = [] if write or verbose or not scenario.trace else _difference(scenario, replayed)
    show.end(scenario, replayed, difference)
    if replayed.failed:
        raise CommandFailed(f"{_counted(len(replayed.failed), 'expectation')} failed")
    if difference:
        raise CommandFailed("the trace differs from the one in the file; --write replaces it")


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        raise CommandFailed(f"{path} is not a text file in UTF-8") from None


def _difference(scenario: "Scenario", replayed: "Replayed") -> list[str]:
    return list(difflib.unified_diff(scenario.trace, replayed.trace, "in the file", "now", n=1, lineterm=""))


class _TextLines:
    def __init__(self, scenario: "Scenario") -> None:
        self._scenario = scenario
        self._play = ""
        say(scenario.title)
        say("")
        for line in scenario.lesson:
            say(line)

    def tell(self, line: "Line") -> None:
        from kafka_zk.sim.replay.player import heading

        if line.play != self._play:
            self._play = line.play
            say("")
            say(heading(self._scenario, line.play))
        say(str(line))

    def end(self, scenario: "Scenario", replayed: "Replayed", difference: list[str]) -> None:
        from kafka_zk.sim.scenarios.scenario import PLAYS

        say("")
        for play in scenario.plays:
            found = len(replayed.violations[play])
            say(f"{PLAYS[play].capitalize()}: {_counted(found, 'violation')} at the end.")
            for what in dict.fromkeys(replayed.safeguards[play]):
                say(f"  Safeguard: {what}")
        for line in replayed.failed:
            note(f"line {line.number}, {PLAYS[line.play]}: this expectation does not hold: {line.text}")
        if difference:
            note("The trace differs from the one in the file:")
            for each in difference:
                click.echo(each, err=True)


class _JsonLines:
    def tell(self, line: "Line") -> None:
        print_json(line.document())

    def end(self, scenario: "Scenario", replayed: "Replayed", difference: list[str]) -> None:
        trace = "absent" if not scenario.trace else "different" if difference else "same"
        failed = [{"play": line.play, "number": line.number, "text": line.text} for line in replayed.failed]
        plays = [
            {"play": play, "violations": replayed.violations[play], "safeguards": replayed.safeguards[play]}
            for play in scenario.plays
        ]
        print_json({"kind": "end", "title": scenario.title, "trace": trace, "failed": failed, "plays": plays})


def _counted(count: int, noun: str) -> str:
    return f"no {noun}" if not count else f"{count} {noun}{'s' if count > 1 else ''}"


def _list(as_json: bool) -> None:
    from kafka_zk.sim.scenarios import library
    from kafka_zk.sim.scenarios.scenario import parse

    rows = [{"SCENARIO": name, "TITLE": parse(path.read_text()).title} for name, path in library.built_in().items()]
    print_rows(("SCENARIO", "TITLE"), rows, as_json)


def _show_phrases(as_json: bool) -> None:
    from kafka_zk.sim.scenarios import conditions, verbs
    from kafka_zk.sim.scenarios.old_rules import OLD_RULES

    rules = [(f"old rule {name}", rule.says) for name, rule in OLD_RULES.items()]
    parts = {"what happens": verbs.described(), "CONDITION": conditions.described(), "old rules": rules}
    if as_json:
        click.echo(json.dumps({part: dict(phrases) for part, phrases in parts.items()}))
        return
    for part, phrases in parts.items():
        say(f"{part}:")
        for text, meaning in phrases:
            say(f"  {text}")
            say(f"      {meaning}")
