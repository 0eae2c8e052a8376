"""Ids in paths."""

from __future__ import annotations

import re

from aiohttp import web

from longshore.dispatcher.service.contracts import NotFound

_ID = re.compile(r"[\x21-\x7e]{1,256}")


def path_id(request: web.Request, noun: str) -> str:
    """Return the id in the path; raises `NotFound` for what cannot be an id of ours."""
    identifier = request.match_info["id"]
    if not _ID.fullmatch(identifier):
        raise NotFound(f"there is no {noun} with that id")
    return identifier
