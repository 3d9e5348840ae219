"""A helper for several tests of the page."""

from collections.abc import Callable
from types import ModuleType

import pytest

SetAnswers = Callable[..., None]


def answering(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> SetAnswers:
    """Sets each server's response to the four-letter words of a module; an exception is raised instead."""

    def set_answers(**by_host: str | Exception) -> None:
        def ask(word: str, port: int, host: str) -> str:
            answer = by_host[host]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(module, "ask", ask)

    return set_answers
