"""Shared parts of the group and the transaction coordinator. Each keeps its state in an internal topic. The leader of a
partition of that topic loads the state from its log."""
