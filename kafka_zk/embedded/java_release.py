"""The version of a Java, from the file ``release`` of its folder: nothing is started."""

import re
from pathlib import Path


def version_in_release_file(java: Path) -> str | None:
    """The version ("17.0.15") of the Java with this ``bin/java``, links followed; None if it has no such file.

    Source: the file that every JDK since 8 has, and that ``jlink`` writes.
    """
    try:
        text = (java.resolve().parents[1] / "release").read_text()
    except (OSError, ValueError, IndexError):
        return None
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return found[1] if found else None
