"""``authorizer.class.name=module:Class``: a Python class as authorizer.

The class is called with the broker's configuration (key -> text); its ``authorize(context, operation, resource)``
returns True if ``context.principal`` may perform the operation. This method must not block the broker; decisions are
not cached. An exception denies the operation, and is logged once a minute.
``authorize_any(context, operation, resource_type)`` is optional: it decides whether the principal may perform the
operation on some resource of the type.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from kafka_zk.broker.security.authorizer import Authorizer, AuthorizerCounts, Operation, Resource
from kafka_zk.broker.security.denials import Denials
from kafka_zk.protocol.request import RequestContext


class CannotLoad(Exception):
    """The message is one sentence."""


def load(name: str, properties: Mapping[str, str], denials: Denials) -> "PythonAuthorizer":
    """Create the authorizer. ``name``: ``module:Class``. Raises CannotLoad."""
    module, _, class_name = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), class_name)(dict(properties))
    except Exception as error:
        raise CannotLoad(f"authorizer.class.name={name}: it cannot be used: {type(error).__name__}: {error}") from error
    if not callable(getattr(made, "authorize", None)):
        raise CannotLoad(f"authorizer.class.name={name}: it has no method authorize(context, operation, resource)")
    return PythonAuthorizer(made, denials)


class PythonAuthorizer(Authorizer):
    """Delegates decisions to ``decider``."""

    def __init__(self, decider: Any, denials: Denials) -> None:
        self._decider = decider
        self.denials = denials

    @property
    def counts(self) -> AuthorizerCounts:
        return AuthorizerCounts(self.denials.count)

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return self.may(context, operation, resource) or self.denials.add(context, operation, resource)

    def may(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return self._asked(self._decider.authorize, context, operation, resource)

    def may_any(self, context: RequestContext, operation: Operation, resource_type: str) -> bool:
        decide = getattr(self._decider, "authorize_any", None)
        return decide is not None and self._asked(decide, context, operation, resource_type)

    def _asked(self, decide: Any, *asked: Any) -> bool:
        """Ask the class. Only True allows the operation; any other result, such as a coroutine, denies it."""
        try:
            return decide(*asked) is True
        except Exception:
            self.denials.failed(asked[1:])
            return False
