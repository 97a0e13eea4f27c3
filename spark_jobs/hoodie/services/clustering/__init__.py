"""Clustering: the rows of small files rewritten into larger ones, in an order that queries profit from.

trigger   is one due: commits since the last one
strategy  which file slices go into a plan, and in which groups
schedule  the plan, made and put on the timeline while no writer is at work
execute   pending plans, oldest first, while writers add to other file groups
order     sort keys: columns, or their place on a space-filling curve (curves)
sort      rows in the order of their keys, spilled beyond the memory budget
split     a group's rows over several tasks
task      what a task does
run       the modes of a job, and what it reports
"""
