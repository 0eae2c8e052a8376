"""What names may be: of variables, of secrets, and of their files and registries.

Stands alone: both what checks containers and what checks their secrets asks here.
"""

from __future__ import annotations

import re
from typing import Final

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED_PREFIX: Final = "LONGSHORE_"
SECRET_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
RULE_FOR_SECRETS: Final = "use 1 to 63 letters, digits, dots, dashes or underscores"
FILE_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,63}")
FILE_NAME_RULE: Final = "use 1 to 63 letters, digits, dots, dashes or underscores, and no slash"
REGISTRY: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?")
