"""Shows two runs of one scenario as rows: what was done in both runs and, where they differ, each run's events.
Pure."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from kafka_zk.sim.replay.player import FACT, FAILED, FOUND, HELD, NOTE, Line
from kafka_zk.sim.scenarios.scenario import OLD, OURS

LOG = "log"
"""The kind of a line about a replica's contents."""
_RESULTS = (HELD, FAILED)


class Row(NamedTuple):
    """``text``: a remark or an action. ``both``: the replicas' contents afterwards, if they are the same in both runs.
    ``old``, ``ours``: the differences, by run.
    """

    is_note: bool
    text: str
    both: tuple[str, ...] = ()
    old: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()


def rows(lines: Iterable[Line]) -> list[Row]:
    """One row for each remark and action, in the order of the scenario, with the events that followed.

    Events that followed in both runs, perhaps at different times, are left out.
    """
    steps = {play: _steps(list(those)) for play, those in groupby(lines, lambda line: line.play)}
    numbers = sorted({number for those in steps.values() for number in those})
    return [_row(steps.get(OLD, {}).get(number), steps.get(OURS, {}).get(number)) for number in numbers]


class _Step(NamedTuple):
    head: Line
    events: list[Line]


def _steps(lines: Sequence[Line]) -> dict[int, _Step]:
    """The steps by scenario line number, without expectations and the judges' findings."""
    steps: dict[int, _Step] = {}
    last: _Step | None = None
    for line in lines:
        if line.kind in (FACT, FOUND, LOG):
            if last is not None and line.kind != FOUND:
                last.events.append(line)
        elif line.kind not in _RESULTS:
            last = steps[line.number] = _Step(line, [])
    return steps


def _row(old: _Step | None, ours: _Step | None) -> Row:
    step = old or ours
    assert step is not None
    here, there = _events(old), _events(ours)
    same = here.keys() & there.keys()
    logs = {(line.who, line.text, 0) for line in step.events if line.kind == LOG}
    return Row(
        step.head.kind == NOTE,
        step.head.text,
        tuple(said for key, said in here.items() if key in same & logs),
        tuple(said for key, said in here.items() if key not in same),
        tuple(said for key, said in there.items() if key not in same),
    )


def _events(step: _Step | None) -> dict[tuple[str, str, int], str]:
    """Each event's line, by the actor, the sentence, and the number of earlier lines with both."""
    events: dict[tuple[str, str, int], str] = {}
    for line in step.events if step is not None else []:
        count = sum(key[:2] == (line.who, line.text) for key in events)
        events[line.who, line.text, count] = f"{line.time_ms / 1000:.1f} {line.who}: {line.text}"
    return events
