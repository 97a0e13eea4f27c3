"""Judges that tests use: independent of the package under test."""
