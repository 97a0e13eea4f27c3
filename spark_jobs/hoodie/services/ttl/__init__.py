"""Partition TTL: partitions whose time is over are deleted, by one replacecommit.

plan.py       which partitions, by the state that the commit replaces
hoodie.expiry the commit, made as every delete of partitions is, and the result
"""
