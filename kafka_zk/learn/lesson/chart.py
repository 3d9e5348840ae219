"""Lag over time as bars of characters, two groups side by side, with the input rate. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"


def lags(written_s: Iterable[float], got_s: Iterable[float], times_s: Sequence[float]) -> list[int]:
    """Records written but not delivered, at each time."""
    written, got = sorted(written_s), sorted(got_s)
    return [bisect_left(written, time_s) - bisect_left(got, time_s) for time_s in times_s]


def bar(value: float, full: float, width: int) -> str:
    """The bar is drawn in eighths of a character; ``full`` is the value of a full bar."""
    eighths = round(min(max(value, 0) / full, 1.0) * width * 8) if full else 0
    whole, rest = divmod(eighths, 8)
    return _FULL * whole + (_EIGHTHS[rest] if rest else "")


def lag_chart(
    groups: Mapping[str, Sequence[float]],
    inputs: Sequence[int],
    times_ms: Sequence[int],
    marks: Mapping[int, str],
    width: int,
) -> Iterator[str]:
    """Each line has the time, the number of new records, and each group's lag as a bar and a number.

    Args:
        groups: name -> lag at each time.
        inputs: records written since the previous time.
        marks: index of a time -> event at that time.
        width: maximum width of a bar, in characters.
    """
    largest = max((value for values in groups.values() for value in values), default=0) or 1
    column = width + 7
    yield f"{'ms':>7}  {'in':>4}  " + "".join(f"{f'lag, {name}':<{column}}" for name in groups)
    for index, time_ms in enumerate(times_ms):
        cells = "".join(
            f"{bar(values[index], largest, width):<{width}} {values[index]:>4.0f}  " for values in groups.values()
        )
        mark = f"← {marks[index]}" if index in marks else ""
        yield f"{time_ms:>7}  {inputs[index]:>4}  {cells}{mark}".rstrip()
