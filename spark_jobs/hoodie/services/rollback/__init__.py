"""Rollback of a chosen instant: a failed one, or the newest completed commit.

choose.py  what may be rolled back, and what stands in the way
reach.py   whether the files of an earlier state are still there
run.py     the job and its result
work.py    what it does to files, for people
"""
