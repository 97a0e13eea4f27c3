"""`python -m hoodie.cli`."""

from __future__ import annotations

import sys

from hoodie.cli.command import main

sys.exit(main())
