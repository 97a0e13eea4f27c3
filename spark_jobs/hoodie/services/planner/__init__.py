"""Which services a table needs, and all of them run in the right order.

activity  the processes at work on the table, and the pending instants that no process works on
entry     what the planner asks of a service
plan      what each would do now, and why
run       each of them run, and what it reports
"""
