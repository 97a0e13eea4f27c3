"""Hive's metastore, by Thrift: its definitions and a connection; what uses them is in other packages."""
