"""The scenarios that are built in: the files of ``outages/``, by name."""

from pathlib import Path

FOLDER = Path(__file__).parent / "outages"


def built_in() -> dict[str, Path]:
    """By name, sorted."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.txt"))}


def names() -> list[str]:
    return list(built_in())


def find(name: str) -> Path | None:
    """A file of that path, or the built-in scenario of that name; None if there is neither."""
    path = Path(name)
    return path if path.is_file() else built_in().get(name)
