"""Compaction of merge-on-read tables: the logs of a file slice merged with its base file into a new one.

service   what the planner, the command and the operator know of it
schedule  is one due, which file slices go into a plan, and the plan, made while no writer is at work
execute   pending plans, oldest first, while writers go on
run       the modes of a job, and what it reports
"""
