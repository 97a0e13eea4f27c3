"""Downgrades of the table version, described; services.upgrade carries them out."""
