"""Errors that prevent a fault. ``str()`` is a sentence for the user."""


class InvalidFault(Exception):
    """The request is invalid, or this cluster cannot carry it out."""


class WrongBroker(Exception):
    """Another broker of the cluster must carry out the fault."""
