"""Which services a table needs, and all of them run in the right order.

activity  who is at work on the table, and what is pending that nobody works on
repair    failed writes rolled back, what killed runs left behind swept
registry  the services, one line each, in the order in which they run
plan      what each would do now, and why
run       each of them run, and what it reports
"""
