"""Log compaction of merge-on-read tables of versions 8 and 9: the logs of a file slice merged into one log,
which queries read in place of them until a compaction.

service   what the planner, the command and the operator know of it
run       is one due, which log files of which slices go into a plan, and what a job reports
execute   pending plans, oldest first, while writers go on
"""
