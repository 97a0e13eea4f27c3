"""Archiving: old instants are moved from the active timeline into archive files (format.md 11).

service  what the planner, the command and the operator know of it
policy   which instants may go, and what holds the others back
run      the archive written, then the instants' files deleted, in an order that survives a kill; small files
         of the archive made one
"""
