"""The summary of a bench run for docs/: medians and ranges, with commit and machine. docs/ does not contain the
samples.

    python -m tests.bench.summary RAW.json docs/bench/bench.json

It reads the output of a bench with ``--json``. A list of numbers becomes its median and range; samples are grouped by
what they measure (``_IDENTITY``), and each figure of a group is summarised in the same way.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: The fields of a sample that identify the measurement; all others are figures, except for the number of the round.
_IDENTITY = (
    "workload", "target", "method", "members", "partitions", "kind", "input", "layout", "sink", "source", "name",
)  # fmt: skip
_ROUND = "round"
#: Facts that the bench's own code at the commit contains.
_LEFT_OUT = ("server_properties", "kafka_jvm_flags", "plan")
_DIGITS = 4


def summary(value: Any) -> Any:
    """``value`` with each list of numbers or of samples replaced by its summary."""
    if isinstance(value, Mapping):
        if value and all(key.isdigit() and _is_number(figure) for key, figure in value.items()):
            return _of_numbers(list(value.values()))
        return {key: summary(item) for key, item in value.items()}
    if isinstance(value, list):
        if len(value) > 2 and all(map(_is_number, value)):  # two numbers are already a range
            return _of_numbers(value)
        if len(value) > 1 and all(isinstance(item, Mapping) and "unit" not in item for item in value):
            return _of_samples(value)
        return [summary(item) for item in value]
    return _rounded(value) if _is_number(value) else value


def _of_numbers(values: Sequence[float]) -> dict[str, float]:
    return {
        "min": _rounded(min(values)),
        "median": _rounded(statistics.median(values)),
        "max": _rounded(max(values)),
    }


def _of_samples(samples: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for sample in samples:
        identity = {key: sample[key] for key in _IDENTITY if key in sample}
        groups.setdefault(json.dumps(identity), []).append(_flat(sample, {*identity, _ROUND}))
    return [{**json.loads(identity), **_of_group(group)} for identity, group in groups.items()]


def _of_group(group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    figures: dict[str, Any] = {"samples": len(group)}
    for key in dict.fromkeys(key for sample in group for key in sample):
        values = [sample[key] for sample in group if sample.get(key) is not None]
        numbers = [value for value in values if _is_number(value)]
        if numbers and len(numbers) == len(values):
            figures[key] = _rounded(numbers[0]) if len(set(numbers)) == 1 else _of_numbers(numbers)
    return figures


def _flat(sample: Mapping[str, Any], left_out: Iterable[str]) -> dict[str, Any]:
    """The sample with the figures of nested mappings beside its own; lists and figures by partition become their
    median.
    """
    flat: dict[str, Any] = {}
    for key, value in sample.items():
        if key in left_out:
            continue
        reduced = summary(value)
        if isinstance(reduced, Mapping) and "median" in reduced:
            flat[key] = reduced["median"]
        elif isinstance(reduced, Mapping):
            flat.update(_flat(reduced, ()))
        else:
            flat[key] = reduced
    return flat


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")


def text(kept: Mapping[str, Any]) -> str:
    """JSON with a line for each fact and each group of samples."""
    facts = []
    for key, value in kept.items():
        if isinstance(value, list) and value:
            shown = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        else:
            shown = json.dumps(value)
        facts.append(f" {json.dumps(key)}: {shown}")
    return "{\n" + ",\n".join(facts) + "\n}\n"


def main() -> None:
    raw, target = map(Path, sys.argv[1:])
    kept = {key: value for key, value in json.loads(raw.read_text()).items() if key not in _LEFT_OUT}
    target.write_text(text(summary(kept)))


if __name__ == "__main__":
    main()
