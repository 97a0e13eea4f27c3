"""The table object: `hoodie.Table`, its results, and the words that it has for settings.

Its methods call the functions of `hoodie.api` and `hoodie.service_api`. `hoodie.table.handle.Table` is
another class: what one operation reads of a table.
"""
