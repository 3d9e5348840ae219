"""Reads the version of a Java from the file ``release`` in its folder, without running Java."""

import re
from pathlib import Path


def version_in_release_file(java: Path) -> str | None:
    """The version ("17.0.15") of the Java with this ``bin/java``, which may be a link; None if it has no such file.

    Every JDK since 8 has the file, and ``jlink`` writes it.
    """
    try:
        text = (java.resolve().parents[1] / "release").read_text()
    except (OSError, ValueError, IndexError):
        return None
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return found[1] if found else None
