"""Changes of the table version: rules.py has the properties, table/version_change.py the files."""
