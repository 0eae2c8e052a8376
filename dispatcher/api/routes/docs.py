"""The pages that show the OpenAPI document in a browser: public, as the document itself is.

Swagger UI comes from the files of an installed package (`offapi`), not from another host, and the
page may load, run and ask nothing that is not from here: its `Content-Security-Policy` says so.
Importing that package would read all that it has into memory, so that its files are found by what
pip noted of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

from aiohttp import web

from longshore.dispatcher.api.render.problems import Handler
from longshore.dispatcher.api.routes.openapi import DOCUMENT

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Longshore API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger_style.css">
</head>
<body>
<noscript>This page takes JavaScript. <a href="openapi.json">The document</a> does not.</noscript>
<div id="swagger-ui"></div>
<script src="docs/swagger_bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
# By itself it would send the document's address to a validator on the internet.
_START = """\
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
});
"""


def document_pages() -> Mapping[str, Handler]:
    """Return who answers for the document and for the pages that show it, by path."""
    return {
        "/openapi.json": _document,
        "/docs": _page,
        "/docs/start.js": _start,
        "/docs/swagger_bundle.js": _packaged("swagger_bundle.js"),
        "/docs/swagger_style.css": _packaged("swagger_style.css"),
    }


async def _document(request: web.Request) -> web.Response:
    return web.Response(body=request.app[DOCUMENT], content_type="application/json")


async def _page(_request: web.Request) -> web.Response:
    return web.Response(
        text=_PAGE, content_type="text/html", headers={"Content-Security-Policy": POLICY}
    )


async def _start(_request: web.Request) -> web.Response:
    return web.Response(text=_START, content_type="text/javascript")


def _packaged(name: str) -> Handler:
    path = Path(str(distribution("offapi").locate_file(f"offapi/{name}")))

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.FileResponse(path)

    return answer
