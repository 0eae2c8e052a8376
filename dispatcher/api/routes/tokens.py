"""The routes of tokens, and of who one is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from longshore.dispatcher.api.render.tokens import (
    caller_answer,
    new_token_answer,
    token_answer,
)
from longshore.dispatcher.api.render.values import json_response
from longshore.dispatcher.api.routes.callers import Access, caller_of, note_change
from longshore.dispatcher.api.routes.openapi import KEY_HEADER, Route
from longshore.dispatcher.api.schemas import tokens as wire
from longshore.dispatcher.api.schemas.tokens import RevokeRequest, TokenList, TokenRequest
from longshore.dispatcher.api.validate.bodies import (
    Bodies,
    QueryString,
    decode_one,
    idempotency_key,
)
from longshore.dispatcher.api.validate.ids import path_id
from longshore.dispatcher.api.validate.parameters import PAGE_PARAMETERS, USER, Choice
from longshore.dispatcher.api.validate.submissions import fingerprint
from longshore.dispatcher.api.validate.tokens import checked_token
from longshore.dispatcher.domain.tokens import TokenState
from longshore.dispatcher.service.tokens import TokenService

_STATES = {state.value: state for state in TokenState}
_STATE = Choice(
    name="state", description="Only those in this state.", words=tuple(_STATES), default=""
)
_TOKENS: Mapping[str, Any] = {
    "a user of two projects": {
        "user": "ann",
        "projects": ["vision", "speech"],
        "default_project": "vision",
        "name": "laptop",
    },
    "for Prometheus": {"user": "prometheus", "role": "metrics"},
}
_LIST_PARAMETERS = (USER, _STATE, *PAGE_PARAMETERS)


class TokenRoutes:
    """Answers for `/v1/tokens` and below, and for `/v1/whoami`."""

    def __init__(self, tokens: TokenService, *, bodies: Bodies) -> None:
        self._tokens = tokens
        self._bodies = bodies

    async def create(self, request: web.Request) -> web.Response:
        """Make a token, and answer its text this once."""
        wanted = await self._bodies.decoded(request, partial(decode_one, TokenRequest))
        new = checked_token(wanted)
        note_change(request, f"{new.role.value} {new.user} in {', '.join(new.projects) or 'all'}")
        token, text = await self._tokens.create(
            new,
            caller=caller_of(request),
            idempotency_key=idempotency_key(request),
            fingerprint=fingerprint(msgspec.to_builtins(wanted)),
        )
        answer = new_token_answer(token, self._tokens.state_of(token), text)
        headers = {"Location": f"/v1/tokens/{token.id}"}
        return json_response(answer, status=201, headers=headers)

    async def list(self, request: web.Request) -> web.Response:
        """Answer a page of tokens, by id."""
        query = QueryString(request, _LIST_PARAMETERS)
        state, (cursor, limit) = query.choice(_STATE), query.page()
        page = self._tokens.tokens(
            user=query.text(USER),
            state=_STATES[state] if state else None,
            cursor=cursor,
            limit=limit,
        )
        items = tuple(token_answer(each, self._tokens.state_of(each)) for each in page.items)
        return json_response(TokenList(items=items, next_cursor=page.next_cursor))

    async def show(self, request: web.Request) -> web.Response:
        """Answer one token, without its text."""
        token = self._tokens.token(path_id(request, "token"))
        return json_response(token_answer(token, self._tokens.state_of(token)))

    async def revoke(self, request: web.Request) -> web.Response:
        """Let nobody in with a token any more."""
        token_id = path_id(request, "token")
        await self._bodies.decoded(request, partial(decode_one, RevokeRequest))
        token = await self._tokens.revoke(token_id, caller=caller_of(request))
        note_change(request, f"{token.role.value} {token.user}")
        return json_response(token_answer(token, self._tokens.state_of(token)))

    async def whoami(self, request: web.Request) -> web.Response:
        """Answer who the caller is."""
        QueryString(request, ())
        return json_response(caller_answer(caller_of(request)))


# ---- the table of the routes of tokens -----------------------------------------------------------


def token_routes(tokens: TokenRoutes) -> list[Route]:
    """Return the routes of tokens, and of who one is."""
    token = "/v1/tokens/{id}"  # noqa: S105 - a path, not a password
    return [
        Route(
            method="POST",
            path="/v1/tokens",
            handler=tokens.create,
            operation_id="create_token",
            headers=(KEY_HEADER,),
            refusals=(409,),
            summary="Make a token; its text is in this answer alone",
            description="Keep the text: the server has only what it takes to know it again.",
            examples=_TOKENS,
            answer_headers=("Location",),
            access=Access.ADMINS,
            request=(wire.TokenRequest,),
            answer=(wire.NewTokenAnswer,),
            status=201,
        ),
        Route(
            method="GET",
            path="/v1/tokens",
            handler=tokens.list,
            operation_id="list_tokens",
            summary="List tokens, by id, without their texts",
            description="Filters that are given together must all hold.",
            access=Access.ADMINS,
            answer=(wire.TokenList,),
            parameters=_LIST_PARAMETERS,
        ),
        Route(
            method="GET",
            path=token,
            handler=tokens.show,
            operation_id="show_token",
            summary="Show one token, without its text",
            description="With when it was last used, to the minute.",
            access=Access.ADMINS,
            answer=(wire.TokenAnswer,),
        ),
        Route(
            method="POST",
            path=f"{token}/revoke",
            handler=tokens.revoke,
            operation_id="revoke_token",
            summary="Let nobody in with a token any more",
            description="Requests that are under way with it are answered; a token that was revoked"
            " stays revoked.",
            examples={"all there is to say": {}},
            access=Access.ADMINS,
            request=(wire.RevokeRequest,),
            answer=(wire.TokenAnswer,),
        ),
        Route(
            method="GET",
            path="/v1/whoami",
            handler=tokens.whoami,
            operation_id="show_caller",
            summary="Tell who one is, and what one sees",
            description="Which user, role and projects a token or another door gives.",
            access=Access.KNOWN,
            answer=(wire.CallerAnswer,),
        ),
    ]
