"""The JSON API for faults over HTTP. ``control_channel`` imports this module with the first connection."""

import json
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from kafka_zk.broker.faults.faults_api import FaultsApi, Reply
from kafka_zk.network.bounded_site import BoundedSite

_log = Logger()


class _Requests(Resource):
    isLeaf = True

    def __init__(self, api: FaultsApi) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._api = api

    def render(self, request: Any) -> Any:
        headers = {
            name.decode("latin-1").lower(): values[0] for name, values in request.requestHeaders.getAllRawHeaders()
        }
        refused = self._api.refusal(headers)
        if refused is not None:
            _finish(refused, request)
            return NOT_DONE_YET
        method, path = request.method.decode("latin-1"), request.path.decode("latin-1")
        answering = ensureDeferred(self._api.answer(method, path, request.content.read()))
        answering.addCallbacks(_finish, _failed, callbackArgs=(request,), errbackArgs=(request,))
        return NOT_DONE_YET


def _finish(reply: Reply, request: Any) -> None:
    status, document = reply
    if request.channel is None:  # the client has disconnected
        return
    request.setResponseCode(status)
    request.setHeader("content-type", "application/json")
    request.write(json.dumps(document).encode() + b"\n")
    request.finish()


def _failed(failure: Failure, request: Any) -> None:
    _log.failure("a request to the API for faults could not be handled", failure)
    _finish((500, {"error": f"a bug: {failure.value!r}"}), request)


def control_site(api: FaultsApi, reactor: Any, max_body_bytes: int) -> BoundedSite:
    return BoundedSite(_Requests(api), reactor, posts=True, max_body_bytes=max_body_bytes)
