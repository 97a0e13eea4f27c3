"""Metastores that a table is entered in, so that engines find it by its name: Hive's (`hive`)."""
