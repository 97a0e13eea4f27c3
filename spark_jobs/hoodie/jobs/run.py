"""Runs the job that its first argument names, such as `clean`; see hoodie.jobs._main."""

from __future__ import annotations

import sys

from hoodie.jobs._main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]))
