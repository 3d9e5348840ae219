"""A client of a broker's JSON API for faults."""

import http.client
import json
from typing import Any

from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.ports import LOCALHOST

TIMEOUT_S = 30
_ELSEWHERE = 409

Document = dict[str, Any]


class FaultRefused(EmbeddedError):
    """A broker did not carry out a fault; ``str()`` is the broker's reason."""


class CarriedOutElsewhere(FaultRefused):
    """Another broker of the cluster must carry out the fault."""


class BrokerGone(FaultRefused):
    """The broker does not respond."""


class FaultClient:
    """``port``, ``token``: those of the broker's API. All methods raise FaultRefused."""

    def __init__(self, port: int, token: str, host: str = LOCALHOST) -> None:
        self._address = (host, port)
        self._token = token

    def begin(self, fault: Document) -> Document:
        return self._ask("POST", "/faults", fault)

    def fault(self, number: int) -> Document:
        return self._ask("GET", f"/faults/{number}")

    def open_faults(self) -> list[Document]:
        found: list[Document] = self._ask("GET", "/faults")["faults"]
        return found

    def end(self, number: int) -> Document:
        return self._ask("POST", f"/faults/{number}/end")

    def _ask(self, method: str, path: str, document: Document | None = None) -> Document:
        connection = http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            connection.request(method, path, None if document is None else json.dumps(document), headers)
            response = connection.getresponse()
            answer: Document = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            where = f"{self._address[0]}:{self._address[1]}"
            raise BrokerGone(f"no broker takes faults at {where}: {error}") from error
        finally:
            connection.close()
        if response.status == _ELSEWHERE:
            raise CarriedOutElsewhere(answer["error"])
        if response.status >= http.client.BAD_REQUEST:
            raise FaultRefused(answer["error"])
        return answer
