"""Which services a table needs, and all of them run in the right order.

activity  who is at work on the table, and what is pending that nobody works on
entry     what the planner asks of a service
plan      what each would do now, and why
run       each of them run, and what it reports
"""
