"""Writes the types of the API's answers for the dashboard anew: `python tools/web_types.py`.

They are made from the OpenAPI document of this checkout, and kept in `web/src/api_types.ts`, so
that a build takes no server. `--check` changes nothing, and exits 1 where they are not current.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "web" / "src" / "api_types.ts"


def main() -> int:
    """Write or check; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.api_document import document_bytes  # noqa: PLC0415 - found only now
    from tools.web_bundle import BundleError, make_client_types  # noqa: PLC0415 - found only now

    with TemporaryDirectory() as folder:
        document, made = Path(folder) / "openapi.json", Path(folder) / "api_types.ts"
        document.write_bytes(document_bytes())
        try:
            make_client_types(document, made)
        except BundleError as error:
            print(error, file=sys.stderr)
            return 1
        text = made.read_text(encoding="utf-8")
    if text == KEPT.read_text(encoding="utf-8"):
        return 0
    if given.check:
        print("web/src/api_types.ts is not current: python tools/web_types.py", file=sys.stderr)
        return 1
    KEPT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
