"""ApiVersions: the APIs with handlers in this broker (KIP-35, KIP-511).

The connection itself responds to requests in an unknown version. Source: KafkaApis.handleApiVersionsRequest@3.9.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from kafka_zk.broker.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

Response = codec.response(ApiKey.API_VERSIONS)


class ApiVersionsHandler:
    """``versions``: API key -> lowest and highest version. The response is encoded once per version, because every
    connection begins with this request."""

    def __init__(self, versions: Mapping[ApiKey, tuple[int, int]]) -> None:
        self._versions = versions
        self._body = cache(self._encoded)

    async def handle(self, services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
        """Return the APIs; INVALID_REQUEST if the client's software name or version breaks the rules of KIP-511."""
        if header.api_version >= 3:
            names = (request.client_software_name, request.client_software_version)
            if not all(_SOFTWARE.fullmatch(name) for name in names):
                return Response(error_code=ErrorCode.INVALID_REQUEST)
        return [self._body(header.api_version)]

    def _encoded(self, version: int) -> bytes:
        message = Response(
            api_keys=[
                Response.ApiVersion(api_key=key, min_version=lowest, max_version=highest)
                for key, (lowest, highest) in sorted(self._versions.items())
            ]
        )
        return bytes(codec.encode_body(message, ApiKey.API_VERSIONS, version))
