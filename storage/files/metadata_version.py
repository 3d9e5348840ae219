"""The versions that ``inter.broker.protocol.version`` and ``message.format.version`` can name.

Source: MetadataVersion.java@3.9 (``fromVersionString``).
"""

_UNSTEPPED = ("0.8.0", "0.8.1", "0.8.2", "0.9.0")
_STEP_COUNTS = {
    "0.10.0": 2, "0.10.1": 3, "0.10.2": 1, "0.11.0": 3, "1.0": 1, "1.1": 1, "2.0": 2, "2.1": 3, "2.2": 2, "2.3": 2,
    "2.4": 2, "2.5": 1, "2.6": 1, "2.7": 3, "2.8": 2, "3.0": 2, "3.1": 1, "3.2": 1, "3.3": 4, "3.4": 1, "3.5": 3,
    "3.6": 3, "3.7": 5, "3.8": 1, "3.9": 1, "4.0": 2,
}  # fmt: skip
"""Number of steps (``-IV0``, ``-IV1``, …) of each release."""

_UNRELEASED = "4.0"
"""For this release, only the names with a step are valid."""

_STEPS = [f"{release}-IV{step}" for release, count in _STEP_COUNTS.items() for step in range(count)]
_VERSIONS = frozenset(
    {
        *_UNSTEPPED,
        *(_STEP_COUNTS.keys() - {_UNRELEASED}),
        *_STEPS,
    }
)

_BEFORE_FEATURES = "3.0-IV0"
_LEVELS = {name: level for level, name in enumerate(_STEPS[_STEPS.index(_BEFORE_FEATURES) :])}


def is_metadata_version(text: str) -> bool:
    """True if ``text`` names a version, with or without a bug fix release: ``3.9-IV0``, ``3.9``, ``3.9.1``,
    ``0.11.0.3``."""
    segments = text.rstrip(".").split(".")
    count = 3 if text.startswith("0.") else 2
    return (".".join(segments[:count]) if len(segments) > count else text) in _VERSIONS


def feature_level(text: str) -> int | None:
    """The level of the feature ``metadata.version``: 21 for ``3.9-IV0`` and for ``3.9``, 0 for versions before 3.0-IV1,
    which have none. None if ``text`` names no version.

    Source: MetadataVersion.java@3.9, where the levels count the steps since 3.0-IV1.
    """
    if not is_metadata_version(text):
        return None
    if "-IV" in text:
        return _LEVELS.get(text, 0)
    release = ".".join(text.split(".")[:2])  # a name without a step means the release's last step
    return max((level for name, level in _LEVELS.items() if name.startswith(f"{release}-")), default=0)


def name_of_level(level: int) -> str:
    """``3.9-IV0`` for 21."""
    return next((name for name, each in _LEVELS.items() if each == level), f"level {level}")
