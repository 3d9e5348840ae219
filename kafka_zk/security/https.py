"""Fetches one document from a web server, for example from an OAuth provider. Blocks."""

import http.client
import urllib.error
import urllib.request
from typing import Any

from kafka_zk.security.tls_settings import TlsSettings

TIMEOUT_S = 10.0
MAX_RESPONSE_BYTES = 1_000_000


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Rejects redirects, which could leak the client's secret or substitute trusted keys."""

    def redirect_request(self, *_: Any) -> None:
        return None


def fetch(request: urllib.request.Request, tls: TlsSettings) -> bytes:
    """Return the response body. Raises HTTPError; OSError if the server is unreachable or its response is incomplete;
    ValueError above MAX_RESPONSE_BYTES."""
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if request.full_url.lower().startswith("https:"):
        from kafka_zk.security.tls import client_context

        handlers.append(urllib.request.HTTPSHandler(context=client_context(tls)))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=TIMEOUT_S) as response:
            body: bytes = response.read(MAX_RESPONSE_BYTES + 1)
    except http.client.HTTPException as error:
        raise OSError(f"the answer is not HTTP, or not whole: {type(error).__name__}") from None
    if len(body) > MAX_RESPONSE_BYTES:
        raise ValueError(f"the answer has more than {MAX_RESPONSE_BYTES} bytes")
    return body
