"""INMEMORY: keys of base files that the process holds."""
