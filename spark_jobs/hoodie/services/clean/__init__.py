"""Cleaning: deletes the file slices that no retained state of the table needs (format.md 13.3).

service  the description for the planner, the command and the operator
policy   how many commits, hours or versions are retained, and the earliest instant
plan     the plan, made from a view: partitions, and their file slices to delete
run      the modes of a job, the execution of a plan, and its result
"""
