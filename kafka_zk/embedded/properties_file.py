"""Java's ``.properties`` format, written so that Java and we read back what was meant.

Java reads such a file as ISO 8859-1 with escapes: a letter beyond ASCII would come out as two others. So the text is
ASCII, with ``\\uXXXX`` for UTF-16 units. Source: java.util.Properties (Java 17).
"""

from collections.abc import Mapping
from pathlib import Path

from kafka_zk.embedded.errors import UnusableDataDir

_NAMED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def properties_text(settings: Mapping[str, object]) -> str:
    """One ``key=value`` line each."""
    return "".join(f"{key}={escape(str(value))}\n" for key, value in settings.items())


def escape(value: str) -> str:
    """A value as the file has it, in ASCII."""
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
    """Raises: UnusableDataDir if ``log.dirs`` cannot hold the path."""
    text = str(path)
    if "," in text:
        raise UnusableDataDir(
            f"{text}: a data directory cannot have a comma in its path, because log.dirs is a list; choose another one"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnusableDataDir(f"{text!r}: a data directory needs a path in UTF-8; choose another one") from None
