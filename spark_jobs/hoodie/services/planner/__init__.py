"""Which services a table needs, and all of them run in the right order.

entry  what the planner asks of a service
run    what each would do now, and why; each of them run, and what it reports; the processes at work on the
       table, and the pending instants that no process works on
"""
