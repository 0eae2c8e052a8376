"""`python -m longshore` is `longshore`."""

from __future__ import annotations

import sys

from longshore.dispatcher.cli.commands.main import main

sys.exit(main())
