"""The files in ``outages/``, by name."""

from pathlib import Path

FOLDER = Path(__file__).parent / "outages"


def built_in() -> dict[str, Path]:
    return {path.stem: path for path in sorted(FOLDER.glob("*.txt"))}


def names() -> list[str]:
    return list(built_in())


def find(name: str) -> Path | None:
    """The file at this path, or the built-in scenario of this name; None if neither exists."""
    path = Path(name)
    return path if path.is_file() else built_in().get(name)
