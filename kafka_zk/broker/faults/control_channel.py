"""The JSON API for faults, on a port of its own; off unless the broker is started with one.

    POST /faults         {"fault": "error", "api": "Produce", "code": "NOT_LEADER_OR_FOLLOWER"} -> 201
    GET  /faults         {"faults": [...]}
    GET  /faults/ID      {"id": 1, "fault": "error", "fired": 0, ...}
    POST /faults/ID/end  the same, with the final count

Every request needs the token, as ``Authorization: Bearer TOKEN``. Requests with an ``Origin`` come from a browser and
are refused. Errors are ``{"error": "a sentence"}``: 400 for a wrong request, 401 without the token, 403 from a browser,
404 if there is no such fault, 409 if another broker must carry it out.

The web server is loaded with the first connection.
"""

import hmac
import json
from collections.abc import Mapping
from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from kafka_zk.broker.faults.errors import InvalidFault, WrongBroker
from kafka_zk.broker.faults.faults import Faults

MAX_BODY_BYTES = 16 * 1024

Reply = tuple[int, Mapping[str, Any]]


def listen(reactor: Any, faults: Faults, host: str, port: int, token: str) -> int:
    """Serve the API and return its port. Raises: CannotListenError."""
    listening: int = reactor.listenTCP(port, _OnDemand(reactor, faults, token), interface=host).getHost().port
    return listening


class _OnDemand(Factory):
    noisy = False

    def __init__(self, reactor: Any, faults: Faults, token: str) -> None:
        self._reactor = reactor
        self._api = FaultsApi(faults, token)
        self._site: Any = None

    def buildProtocol(self, addr: IAddress | None) -> Any:
        if self._site is None:
            from kafka_zk.broker.faults.control_site import control_site

            self._site = control_site(self._api, self._reactor, MAX_BODY_BYTES)
            self._site.doStart()
        return self._site.buildProtocol(addr)


class _NotFound(Exception):
    pass


class FaultsApi:
    """The requests, without HTTP."""

    def __init__(self, faults: Faults, token: str) -> None:
        self._faults = faults
        self._token = token.encode()

    def refusal(self, headers: Mapping[str, bytes]) -> Reply | None:
        """The answer to a request that must not be read: from a browser, or without the token. ``headers``: by their
        names in lower case."""
        if "origin" in headers:
            return 403, {"error": "requests from browsers are refused"}
        given = headers.get("authorization", b"").removeprefix(b"Bearer ")
        if not hmac.compare_digest(given, self._token):
            return 401, {"error": "the token is missing or wrong: Authorization: Bearer TOKEN"}
        return None

    async def answer(self, method: str, path: str, body: bytes) -> Reply:
        """Status and document."""
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
            return 201, faults.told(await faults.begin(_document(body)))
        if path == ["faults"] and method == "GET":
            return 200, {"faults": [faults.told(fault) for fault in faults.open.values()]}
        number = int(path[1]) if len(path) > 1 and path[0] == "faults" and path[1].isdecimal() else 0
        if number not in faults.open:
            raise _NotFound
        if len(path) == 2 and method == "GET":
            return 200, faults.told(faults.open[number])
        if len(path) == 3 and method == "POST" and path[2] == "end":
            return 200, faults.told(faults.end(number))
        raise _NotFound


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidFault(f"the body is not JSON: {error}") from None
