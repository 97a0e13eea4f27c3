"""Rollback of a chosen instant: a failed one, or the newest completed commit.

service      what the planner, the command and the operator know of it
eligibility  what may be rolled back, and what stands in the way: files of an earlier state that are gone
run          the job, its result, and what it does to files, for people
"""
