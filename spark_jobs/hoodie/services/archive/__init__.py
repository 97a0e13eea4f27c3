"""Archiving: old instants are moved from the active timeline into archive files (format.md 11).

policy   which instants may go, and what holds the others back
run      the archive written, then the instants' files deleted, in an order that survives a kill
merge    small archive files made one
"""
