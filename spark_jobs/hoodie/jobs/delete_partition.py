"""Deletes whole partitions, without Spark. Run by spark-submit, or as a module; see hoodie.jobs._main."""

from __future__ import annotations

import sys

from hoodie.jobs._main import main

if __name__ == "__main__":
    sys.exit(main("delete_partition"))
