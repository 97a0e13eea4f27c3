"""Spark's SQL in DuckDB's words: the list of what means the same on both engines, and nothing else.

Each expression has a type of Spark's (`types`), which comes of the tables' columns. Literals (`literals`),
casts (`casts`), operators (`operators`) and functions (`functions`) are on the list with their DuckDB text;
`expressions` and `queries` take a statement's SELECT apart by it. What is not on the list is a ConfigError
that names it. `page` writes the list as a page of the documentation.
"""
