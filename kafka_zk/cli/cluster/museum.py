"""``kafka-zk museum``: outages of the ZooKeeper era, with the old rule and ours side by side."""

import difflib
import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import json_option
from kafka_zk.cli.terminal.output import note, print_json, print_rows, say

if TYPE_CHECKING:
    from kafka_zk.sim.museum.exhibits import Seen, Wing
    from kafka_zk.sim.scenarios.scenario import Scenario

_MIN_COLUMNS, _MAX_COLUMNS = 60, 160
_GAP = " | "


@click.command("museum", short_help="Famous outages of the ZooKeeper era: the old rule and kafka-zk's, side by side.")
@click.argument("exhibit", required=False, metavar="[EXHIBIT]")
@json_option
def command(exhibit: str | None, as_json: bool) -> None:
    """Show an outage or a paper's counter-example: what happens to records with the old rule and with kafka-zk's.

    EXHIBIT is a name or a number; without EXHIBIT, all exhibits are listed. Each is played twice on a simulated cluster
    of real brokers and groups, with the same actions. An exhibit begins with a question; on a terminal, press Enter for
    the answer. Events that happened in both plays are left out. Red: records that were lost, duplicated, left unread or
    left out of a transaction under a rule.

    \b
    kafka-zk museum
    kafka-zk museum truncation-by-watermark
    kafka-zk museum 4 --json
    kafka-zk replay truncation-by-watermark      # every event of both plays
    kafka-zk web truncation-by-watermark         # the same in a browser, with rewind

    The exit code is 1 if an exhibit does not show what it promises.
    """
    if exhibit is None:
        _list(as_json)
    else:
        _show(_name(exhibit), as_json)


def _name(exhibit: str) -> str:
    from kafka_zk.sim.museum.exhibits import EXHIBITS

    if exhibit.isdecimal() and 1 <= int(exhibit) <= len(EXHIBITS):
        return EXHIBITS[int(exhibit) - 1]
    if exhibit not in EXHIBITS:
        near = difflib.get_close_matches(exhibit, EXHIBITS, 1)
        hint = f"did you mean {near[0]}?" if near else "kafka-zk museum lists the exhibits."
        raise CommandFailed(f"the museum has no exhibit {exhibit}; {hint}")
    return exhibit


def _list(as_json: bool) -> None:
    from kafka_zk.sim.museum.exhibits import EXHIBITS, exhibit

    rows: list[dict[str, Any]] = []
    for number, name in enumerate(EXHIBITS, 1):
        scenario = exhibit(name)
        rows.append({"NUMBER": number, "EXHIBIT": name, "TITLE": scenario.title})
        if as_json:
            rows[-1] |= scenario.told._asdict()
    print_rows(("NUMBER", "EXHIBIT", "TITLE"), rows, as_json)


def _show(name: str, as_json: bool) -> None:
    from twisted.logger import globalLogBeginner

    from kafka_zk.sim.museum.exhibits import exhibit, see

    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)  # the judges receive the errors
    scenario = exhibit(name)
    if not as_json:
        _introduce(name, scenario)
    seen = see(scenario)
    if as_json:
        print_json(_document(name, seen))
    else:
        _tell(name, seen)
    if seen.failed:
        raise CommandFailed(f"{name} does not show what it promises: {seen.failed[0].text}")


def _introduce(name: str, scenario: "Scenario") -> None:
    from kafka_zk.sim.museum.exhibits import EXHIBITS

    click.secho(f"{EXHIBITS.index(name) + 1} of {len(EXHIBITS)}: {scenario.title}", bold=True)
    click.echo()
    for paragraph in "\n".join(scenario.lesson).split("\n\n"):
        say(paragraph.replace("\n", " "))
        click.echo()
    say(f"Question: {scenario.told.question}")
    if _is_asked():
        click.prompt("Press Enter to see what happens.", "", show_default=False, prompt_suffix="")  # Ctrl+C ends it
    click.echo()


def _is_asked() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _tell(name: str, seen: "Seen") -> None:
    from kafka_zk.sim.museum.side_by_side import rows
    from kafka_zk.sim.scenarios.old_rules import OLD_RULES

    columns = max(_MIN_COLUMNS, min(_MAX_COLUMNS, shutil.get_terminal_size().columns))
    width = (columns - len(_GAP)) // 2
    rule = OLD_RULES[seen.scenario.old_rule or ""].says
    ours = "KAFKA-ZK'S RULE: the same brokers and clients with their safeguard."
    _beside([f"OLD RULE: {rule}"], [ours], width, bold=True)
    for row in rows(seen.lines):
        if row.is_note:
            click.secho(textwrap.fill(f"# {row.text}", columns, subsequent_indent="# "), fg="cyan")
        elif row.text:
            click.echo(textwrap.fill(f"> {row.text}", columns, subsequent_indent="  "))
        _beside(row.old, row.ours, width)
        for each in row.both:
            click.secho(textwrap.fill(each, columns), dim=True)
    click.echo()
    _records(seen, width)
    click.echo()
    for title, wing in (("With the old rule", seen.old), ("With kafka-zk's rule", seen.ours)):
        say(f"{title}, the judges find {len(wing.violations) or 'nothing'}{':' if wing.violations else '.'}")
        for each in wing.violations:
            click.secho(textwrap.fill(each, columns, initial_indent="  ", subsequent_indent="  "), fg="red")
    click.echo()
    click.secho(textwrap.fill(f"Conclusion: {seen.scenario.told.conclusion}", columns), bold=True)
    for source in seen.scenario.told.sources:
        click.echo(textwrap.fill(f"Source: {source}", columns, break_long_words=False, break_on_hyphens=False))
    note(f"kafka-zk web {name} shows it in a browser, kafka-zk replay {name} every event.")


def _records(seen: "Seen", width: int) -> None:
    """A line for each record; red if this rule has done something wrong to it."""
    for old, ours in zip_longest(seen.old.records, seen.ours.records):
        sides = [(old, seen.old), (ours, seen.ours)]
        texts = ["" if each is None else _sentence(each) for each, _ in sides]
        colors = ["red" if each is not None and each.name in wing.faults else None for each, wing in sides]
        _beside([texts[0]], [texts[1]], width, colors)


def _sentence(record: Any) -> str:
    said = f" ({record.said})" if record.said else ""
    return f"record {record.name}: {record.fate.value.upper() if record.said else record.fate.value}{said}"


def _beside(
    left: Sequence[str],
    right: Sequence[str],
    width: int,
    colors: Sequence[str | None] = (None, None),
    bold: bool = False,
) -> None:
    """Print two columns of this width, wrapped."""
    old, ours = ([part for each in side for part in textwrap.wrap(each, width)] for side in (left, right))
    red_left, red_right = colors
    for one, other in zip_longest(old, ours, fillvalue=""):
        click.echo(f"{_styled(f'{one:<{width}}', red_left, bold)}{_GAP}{_styled(other, red_right, bold)}".rstrip())


def _styled(text: str, color: str | None, bold: bool) -> str:
    return click.style(text, fg=color, bold=bold or None) if text.strip() and (color or bold) else text


def _document(name: str, seen: "Seen") -> dict[str, Any]:
    return {
        "exhibit": name,
        "title": seen.scenario.title,
        **seen.scenario.told._asdict(),
        "old_rule": seen.scenario.old_rule,
        "old": _side(seen.old),
        "ours": _side(seen.ours),
    }


def _side(wing: "Wing") -> dict[str, Any]:
    records = [
        {
            "topic": each.tp.topic,
            "partition": each.tp.partition,
            "value": each.value,
            "fate": each.fate.value,
            "why": each.said,
            "is_fault": each.name in wing.faults,
        }
        for each in wing.records
    ]
    return {"violations": wing.violations, "records": records}
