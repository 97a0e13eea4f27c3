"""Restore: the table back to an earlier commit, every later instant rolled back.

plan.py   which instants go, and whether the table can go back at all
run.py    the order, what survives a kill, the result
"""
