"""Handles the requests of the JSON API for faults, without HTTP. ``control_channel`` describes the API."""

import hmac
import json
import re
from collections.abc import Mapping
from typing import Any

from kafka_zk.broker.faults.errors import InvalidFault, WrongBroker
from kafka_zk.broker.faults.faults import Faults

Reply = tuple[int, Mapping[str, Any]]
"""HTTP status and JSON document."""


_NUMBER = re.compile("[0-9]{1,9}")


class _NotFound(Exception):
    pass


class FaultsApi:
    """The API of one broker's faults. Every request needs ``token``."""

    def __init__(self, faults: Faults, token: str) -> None:
        self._faults = faults
        self._token = token.encode()

    def refusal(self, headers: Mapping[str, bytes]) -> Reply | None:
        """Returns the error response if the request comes from a browser or lacks the token, otherwise None.
        ``headers``: header values by name in lower case."""
        if "origin" in headers:
            return 403, {"error": "requests from browsers are refused"}
        given = headers.get("authorization", b"").removeprefix(b"Bearer ")
        if not hmac.compare_digest(given, self._token):
            return 401, {"error": "the token is missing or wrong: Authorization: Bearer TOKEN"}
        return None

    async def answer(self, method: str, path: str, body: bytes) -> Reply:
        """Carry out a request and return the response. Call this only if ``refusal`` returned None."""
        try:
            return await self._answer(method, path.strip("/").split("/"), body)
        except InvalidFault as error:
            return 400, {"error": str(error)}
        except WrongBroker as error:
            return 409, {"error": str(error)}
        except _NotFound:
            return 404, {"error": f"there is no {method} {path}"}

    async def _answer(self, method: str, path: list[str], body: bytes) -> Reply:
        faults = self._faults
        if path == ["faults"] and method == "POST":
            return 201, faults.as_document(await faults.begin(_document(body)))
        if path == ["faults"] and method == "GET":
            return 200, {"faults": [faults.as_document(fault) for fault in faults.open.values()]}
        number = int(path[1]) if len(path) > 1 and path[0] == "faults" and _NUMBER.fullmatch(path[1]) else 0
        if number not in faults.open:
            raise _NotFound
        if len(path) == 2 and method == "GET":
            return 200, faults.as_document(faults.open[number])
        if len(path) == 3 and method == "POST" and path[2] == "end":
            return 200, faults.as_document(faults.end(number))
        raise _NotFound


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidFault(f"the body is not JSON: {error}") from None
