"""Statements that change a table: DELETE, UPDATE, MERGE INTO, INSERT and CALL, in Spark's SQL on both
engines.

A text becomes a statement (`parser`), and with the table's columns (`target`) a plan (`plan`, `merge`): an
operation and the SELECT of the rows that it writes. The engine evaluates the SELECT, and the writer writes
its rows (`run`). A CALL is the request of a service (`call`).
"""
