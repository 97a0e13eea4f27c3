"""Rollback of a chosen instant: a failed one, or the newest completed commit.

eligibility      what may be rolled back, and what stands in the way
retained_slices  whether the files of an earlier state are still there
run              the job and its result
report           what it does to files, for people
"""
