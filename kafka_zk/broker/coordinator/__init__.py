"""Shared parts of the group and the transaction coordinator. Each keeps its state in an internal topic; the leader of a
partition loads that partition.
"""
