"""HBASE: a table of HBase says which file group contains the record of a key."""
