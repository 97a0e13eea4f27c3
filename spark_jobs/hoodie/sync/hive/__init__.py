"""Sync with a catalog, with the entries that Apache Hudi's HiveSyncTool makes.

`desired_entry` says what the catalog should have, `changes` what that changes of what it has; `catalog` is what a
sync asks of one, `metastore` asks Hive's and `glue` asks AWS Glue; `run` is one sync. `desired_entry` and
`changes` are pure.
"""
