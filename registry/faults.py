"""Reports invalid znode content once, although the znode is read repeatedly."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kafka_zk.registry.client.errors import NoAuth

T = TypeVar("T")


TOLD_COUNT = 5
"""Maximum number of a znode's faults that are reported one by one; one more report counts the rest."""

PATH_COUNT = 100
"""Maximum number of znodes whose faults are reported; one more report covers the rest."""


class ZnodeFaults:
    """Calls ``report`` once with a sentence that names the znode, and again only after the faults have changed."""

    def __init__(self, report: Callable[[str], object]) -> None:
        self._report = report
        self._told: dict[str, tuple[str, ...]] = {}
        self._many_are_told = False

    def found(self, path: str, faults: Sequence[str]) -> None:
        """Report the faults of a znode that was read; none if it was valid."""
        if not faults:
            self.forget(path)
        elif self._told.get(path) != tuple(faults):
            self._told[path] = tuple(faults)
            if len(self._told) > PATH_COUNT:
                self._tell_many()
                return
            for fault in faults[:TOLD_COUNT]:
                self._report(fault if fault.startswith(path) else f"{path}: {fault}")
            if len(faults) > TOLD_COUNT:
                self._report(f"{path}: and {len(faults) - TOLD_COUNT} more entries")

    def _tell_many(self) -> None:
        """Report once that the limit is exceeded, until most of these znodes are valid or gone."""
        if not self._many_are_told:
            self._many_are_told = True
            self._report(f"more than {PATH_COUNT} znodes have invalid content or are hidden; the others are not named")

    def visible(self, paths: Iterable[str], answers: Iterable[T | NoAuth | None]) -> list[T | None]:
        """The answers, with None for hidden znodes, each of which is reported as a fault."""
        read: list[T | None] = []
        for path, answer in zip(paths, answers, strict=True):
            if isinstance(answer, NoAuth):
                self.found(path, [str(answer)])
            read.append(None if isinstance(answer, NoAuth) else answer)
        return read

    def forget(self, path: str) -> None:
        """Forget the faults of a znode that is no longer read."""
        self._told.pop(path, None)
        self._many_are_told &= len(self._told) > PATH_COUNT // 2

    def forget_where(self, is_gone: Callable[[str], bool]) -> None:
        """Forget the faults of the deleted znodes that ``is_gone`` selects."""
        self._told = {path: faults for path, faults in self._told.items() if not is_gone(path)}
        self._many_are_told &= len(self._told) > PATH_COUNT // 2
