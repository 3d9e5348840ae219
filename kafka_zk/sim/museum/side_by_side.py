"""Two plays of one scenario as rows: what was done in both, and where they differ, the events of each. Pure."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from kafka_zk.sim.replay.player import FACT, FAILED, FOUND, HELD, NOTE, Line
from kafka_zk.sim.scenarios.scenario import OLD, OURS

_RESULTS = (HELD, FAILED)


class Row(NamedTuple):
    """``text``: a remark or an action; "" where only events follow. ``old``, ``ours``: events that are not the same."""

    is_note: bool
    text: str
    old: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()


def rows(lines: Iterable[Line]) -> list[Row]:
    """One row for each remark and action, in the order of the scenario, with the events that followed it.

    Events that followed in both plays are left out; their times may differ.
    """
    steps = {play: _steps(list(those)) for play, those in groupby(lines, lambda line: line.play)}
    numbers = sorted({number for those in steps.values() for number in those})
    return [_row(steps.get(OLD, {}).get(number), steps.get(OURS, {}).get(number)) for number in numbers]


class _Step(NamedTuple):
    head: Line
    events: list[Line]


def _steps(lines: Sequence[Line]) -> dict[int, _Step]:
    """By the number of the scenario's line. Violations belong to the expectation that they answer."""
    steps: dict[int, _Step] = {}
    last: _Step | None = None
    for line in lines:
        if line.kind in (FACT, FOUND):
            if last is not None and line.kind == FACT:
                last.events.append(line)
        elif line.kind not in _RESULTS:
            last = steps[line.number] = _Step(line, [])
    return steps


def _row(old: _Step | None, ours: _Step | None) -> Row:
    head = (old or ours or _NOTHING).head
    here, there = (_events(step) for step in (old, ours))
    same = set(here) & set(there)
    return Row(
        head.kind == NOTE,
        head.text,
        tuple(said for key, said in here.items() if key not in same),
        tuple(said for key, said in there.items() if key not in same),
    )


def _events(step: _Step | None) -> dict[tuple[str, str, int], str]:
    """By what was said, by whom, for which time."""
    events: dict[tuple[str, str, int], str] = {}
    for line in step.events if step is not None else []:
        count = sum(key[:2] == (line.who, line.text) for key in events)
        events[line.who, line.text, count] = f"{line.time_ms / 1000:.1f} {line.who}: {line.text}"
    return events


_NOTHING = _Step(Line(OLD, 0, NOTE, "", ""), [])
