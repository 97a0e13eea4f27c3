"""Clustering: the rows of small files rewritten into larger ones, in an order that queries profit from.

service   what the planner, the command and the operator know of it
strategy  is one due, which file slices go into a plan, and in which groups
schedule  the plan, made and put on the timeline while no writer is at work
run       the modes of a job; pending plans, oldest first, while writers add to other file groups
order     sort keys: columns, or their place on a space-filling curve
split     a group's rows over several tasks
task      what a task does: rows in the order of their keys, spilled beyond the memory budget
resize    buckets of a consistent hash ring split and merged
"""
