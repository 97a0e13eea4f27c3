"""The metadata table: what it says of the files of a table. It is read only."""
