"""Catalogs that a table is entered in, so that engines find it by its name: Hive's and AWS Glue's."""
