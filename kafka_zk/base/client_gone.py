"""The error that ends work for a request whose connection has closed."""


class ClientGone(Exception):
    """The connection of a request has closed, so work that only this request needs must end."""
