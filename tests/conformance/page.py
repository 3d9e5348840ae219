"""The table of docs/reference/conformance.md. ``python -m tests.conformance.page FILE`` prints it from results."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.conformance.clients import CLIENTS
from tests.conformance.faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "bench" / "conformance.json"
PAGE = ROOT / "docs" / "reference" / "conformance.md"


def table(rows: Iterable[dict[str, Any]]) -> str:
    """A row for each fault and a column for each client."""
    by_cell = {(row["client"], row["fault"]): row for row in rows}
    names = [client.name for client in CLIENTS]
    lines = [f"| fault | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for fault in FAULTS:
        cells = [_cell(by_cell[name, fault.name]) for name in names]
        lines.append(f"| {fault.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any]) -> str:
    """The seconds until the client recovered, or in bold what the fault does not excuse."""
    if "not_applicable" in row:
        return "–"
    if "never_fired" in row:
        return "not hit"
    if row["objections"]:
        return f"**{', '.join(row['objections'])}**"
    return f"{row['recovered_s']:.1f}"


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text())), end="")
