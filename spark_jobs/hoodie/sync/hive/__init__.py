"""Sync with Hive's metastore, with the entries that Apache Hudi's HiveSyncTool makes.

`wanted` says what the metastore should have, `changes` what that changes of what it has, and `metastore`
asks and changes it; `run` is one sync. `wanted` and `changes` are pure.
"""
