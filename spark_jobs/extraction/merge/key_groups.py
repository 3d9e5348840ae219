"""Keys that changed into each other are folded together. Pure."""

from collections.abc import Iterable


def key_groups(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The group of each key in a pair, named by its smallest key; chains of pairs are one group."""
    parents: dict[str, str] = {}

    def root(key: str) -> str:
        parents.setdefault(key, key)
        while parents[key] != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    for one, other in pairs:
        low, high = sorted((root(one), root(other)))
        parents[high] = low
    return {key: root(key) for key in parents}
