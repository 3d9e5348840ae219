"""The JSON API for faults. It has its own port, and is off unless the broker is started with one.

    POST /faults         {"fault": "error", "api": "Produce", "code": "NOT_LEADER_OR_FOLLOWER"} -> 201
    GET  /faults         {"faults": [...]}
    GET  /faults/ID      {"id": 1, "fault": "error", "fired": 0, ...}
    POST /faults/ID/end  the same, with the final count

Every request needs the token, as ``Authorization: Bearer TOKEN``. A request with an ``Origin`` header comes from a
browser and is rejected. Errors are ``{"error": "a sentence"}``: 400 for an invalid request, 401 without the token, 403
for a browser, 404 if there is no such fault, 409 if another broker must carry out the fault.

The first connection loads the web server's modules.
"""

from typing import Any

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory

from kafka_zk.broker.faults.faults import Faults
from kafka_zk.broker.faults.faults_api import FaultsApi

MAX_BODY_BYTES = 16 * 1024


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
