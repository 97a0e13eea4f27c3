"""Sync with a catalog, as a service."""
