"""`python -m dispatcher` is `longshore`."""

from __future__ import annotations

import sys

from dispatcher.cli.main import main

sys.exit(main())
