"""Writes Java's ``.properties`` format so that Java and Python read the same values.

Java reads such files as ISO 8859-1 with escapes, so a non-ASCII letter in UTF-8 would become two or more other letters.
The file is therefore ASCII, with ``\\uXXXX`` for UTF-16 units. Source: java.util.Properties (Java 17).
"""

from collections.abc import Mapping
from pathlib import Path

from kafka_zk.embedded.errors import UnusableDataDir

_NAMED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def properties_text(settings: Mapping[str, object]) -> str:
    """One ``key=value`` line per setting."""
    return "".join(f"{key}={escape(str(value))}\n" for key, value in settings.items())


def escape(value: str) -> str:
    leading = len(value) - len(value.lstrip(" "))
    return "\\ " * leading + "".join(_escaped(character) for character in value[leading:])


def _escaped(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def check_log_dir(path: Path) -> None:
    """Raises: UnusableDataDir."""
    text = str(path)
    if "," in text:
        raise UnusableDataDir(
            f"{text}: a data directory cannot have a comma in its path, because log.dirs is a list; choose another one"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnusableDataDir(f"{text!r}: a data directory needs a path in UTF-8; choose another one") from None
