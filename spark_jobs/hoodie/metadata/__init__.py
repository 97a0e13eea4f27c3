"""The metadata table: what it says of the files of a table, read and written."""
