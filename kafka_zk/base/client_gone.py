"""The error that ends work for a request whose connection has closed."""


class ClientGone(Exception):
    """The connection of a request closed: work that only this request needs ends."""
