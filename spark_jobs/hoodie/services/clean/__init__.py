"""Cleaning: file slices that no kept state of the table needs are deleted (format.md 13.3).

policy    how much of the past is kept, and from which instant on
slices    the file slices of a partition, and which of them go
plan      which partitions are looked at, and the plan, made from a view
execute   a plan carried out; what can't be deleted is recorded
run       the modes of a job, and what it reports
"""
