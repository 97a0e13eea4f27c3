"""What this provider uses of other packages beyond their public interfaces, one module per package; versions.

No other module touches a private of another package (tests/house/test_privates.py). `pyproject.toml` bounds
the packages to the versions that these modules are tested with. The Spark provider's import takes longer than
all that a sensor does, so that sensors and triggers import the other modules only.
"""
