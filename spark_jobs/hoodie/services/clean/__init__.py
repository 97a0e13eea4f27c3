"""Cleaning: file slices that no kept state of the table needs are deleted (format.md 13.3).

service  what the planner, the command and the operator know of it
policy   how much of the past is kept, and from which instant on
plan     which partitions are looked at, which of their file slices go, and the plan, made from a view
run      the modes of a job, a plan carried out, and what it reports
"""
