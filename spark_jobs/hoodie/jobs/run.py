"""The job script: runs the job that its first argument names, such as `clean`, or else the request's
`operation`; see hoodie.jobs._main.
"""

from __future__ import annotations

import sys

from hoodie.cli.later_pandas import later_pandas
from hoodie.jobs._main import main

if __name__ == "__main__":
    later_pandas()
    arguments = sys.argv[1:]
    named = arguments and not arguments[0].startswith("-")
    if code := main(arguments.pop(0) if named else "", arguments):
        sys.exit(code)  # not with 0: where a Python runs the script for others, any exit is a failure
