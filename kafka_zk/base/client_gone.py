"""The error that stops work for a request whose connection has closed."""


class ClientGone(Exception):
    """The request's connection closed, so work that only this request needs stops."""
