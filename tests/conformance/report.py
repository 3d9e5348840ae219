"""A cell as text: the verdict in one line, and its trace."""

from tests.conformance.cell import Cell
from tests.conformance.judge import Verdict


def verdict_line(verdict: Verdict) -> str:
    """The findings that are not zero: ``acknowledged 31, lost 2 (7, 8), recovered in 0.4 s``."""
    parts = [f"acknowledged {verdict.acknowledged}"]
    for name in ("lost", "doubled", "leaked"):
        values = getattr(verdict, name)
        if values:
            parts.append(f"{name} {len(values)} ({', '.join(map(str, values[:5]))}{', …' if values[5:] else ''})")
    parts += [f"{name} {getattr(verdict, name)}" for name in ("refused", "replaced", "stuck") if getattr(verdict, name)]
    recovered_s = verdict.recovered_s
    return ", ".join([*parts, "never recovered" if recovered_s is None else f"recovered in {recovered_s:.1f} s"])


def full_report(cell: Cell) -> str:
    """The trace with milliseconds since its beginning, then the verdict and the command that repeats the cell."""
    began_s = cell.trace[0].at_s
    lines = [
        f"{(event.at_s - began_s) * 1000:7.0f} ms  {event.kind:<13}{' '.join(map(str, event.values))}  {event.error}"
        for event in cell.trace
    ]
    outcome = f"not excused: {', '.join(cell.objections)}" if cell.objections else "passed"
    verdict = f"{cell.client}, {cell.fault}: {verdict_line(cell.verdict)}; {outcome}"
    return "\n".join([*map(str.rstrip, lines), verdict, f"again: {cell.command}"])
