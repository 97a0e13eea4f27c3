"""Compaction of merge-on-read tables: the logs of a file slice merged with its base file into a new one.

trigger   is one due: delta commits and time since the last one
strategy  which file slices go into a plan
schedule  the plan, made and put on the timeline while no writer is at work
execute   pending plans, oldest first, while writers go on
run       the modes of a job, and what it reports
"""
