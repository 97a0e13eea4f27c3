"""Restore: the table back to an earlier commit, every later instant rolled back.

service  what the planner, the command and the operator know of it
run      which instants go, whether the table can go back at all; the order, what survives a kill, the result
"""
