"""Sync with a catalog, with the entries that Apache Hudi's HiveSyncTool makes.

`desired_entry` says what the catalog should have, and what a sync changes; it is pure. `catalog` is the
interface of catalogs, `metastore` implements it for Hive's and `glue` for AWS Glue; `run` is one sync.
"""
