"""Savepoints: commits whose files the cleaner leaves, and to which the table can go back."""
