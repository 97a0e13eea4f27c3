"""Sync with Hive's metastore, as a service."""
