"""Notebooks of examples/, executed as a reader would: each cell in order, in a kernel of its own."""

from pathlib import Path
from typing import Any

import nbclient
import nbformat

EXAMPLES = Path(__file__).parents[1] / "examples"
TIMEOUT_S = 120


def executed(name: str, folder: Path) -> list[Any]:
    """The outputs of all cells, in order. Raises: CellExecutionError with the cell's traceback."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=resources).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def printed(outputs: list[Any]) -> str:
    """What the cells wrote to stdout."""
    return "".join(output["text"] for output in outputs if output.get("name") == "stdout")
