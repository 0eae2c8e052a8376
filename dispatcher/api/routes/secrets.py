"""The routes of secrets: set, listed and removed; no answer has a value."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from longshore.dispatcher.api.render.values import json_response, rfc3339
from longshore.dispatcher.api.routes.callers import Access, caller_of
from longshore.dispatcher.api.routes.openapi import Route
from longshore.dispatcher.api.schemas.containers import (
    RotationAnswer,
    RotationRequest,
    SecretAnswer,
    SecretList,
    SecretSetRequest,
)
from longshore.dispatcher.api.validate.bodies import Bodies, QueryString, decode_one
from longshore.dispatcher.api.validate.names import RULE_FOR_SECRETS, SECRET_NAME
from longshore.dispatcher.api.validate.parameters import PAGE_PARAMETERS
from longshore.dispatcher.api.validate.secrets import check_value
from longshore.dispatcher.domain.secrets import StoredSecret
from longshore.dispatcher.input.problems import Problems
from longshore.dispatcher.input.text_rules import name_problem
from longshore.dispatcher.service.contracts import NotFound
from longshore.dispatcher.service.secrets import SecretService
from longshore.drivers.errors import InvalidRequest

_PROJECT = "/v1/projects/{project}/secrets"


class SecretRoutes:
    """Answers for the secrets of projects."""

    def __init__(self, secrets: SecretService, *, bodies: Bodies) -> None:
        self._secrets = secrets
        self._bodies = bodies

    async def list(self, request: web.Request) -> web.Response:
        """Answer the secrets of a project, by name."""
        cursor, limit = QueryString(request, PAGE_PARAMETERS).page()
        found, following = self._secrets.secrets(
            request.match_info["project"], caller=caller_of(request), cursor=cursor, limit=limit
        )
        items = [self._answer(each) for each in found]
        return json_response(SecretList(items=items, next_cursor=following))

    async def set(self, request: web.Request) -> web.Response:
        """Set a secret: 201 where there was none of that name."""
        project, name = request.match_info["project"], request.match_info["name"]
        wanted = await self._bodies.decoded(request, partial(decode_one, SecretSetRequest))
        problems = Problems()
        if wrong := name_problem(project):
            problems.add("project", wrong)
        if not SECRET_NAME.fullmatch(name):
            problems.add("name", f"is not a secret's name: {RULE_FOR_SECRETS}")
        check_value(wanted.value, "value", problems)
        if problems:
            raise InvalidRequest(problems.listed())
        caller = caller_of(request)
        secret, is_new = await self._secrets.set(project, name, wanted.value, caller=caller)
        return json_response(self._answer(secret), status=201 if is_new else 200)

    async def remove(self, request: web.Request) -> web.Response:
        """Remove a secret."""
        project, name = request.match_info["project"], request.match_info["name"]
        if not SECRET_NAME.fullmatch(name):
            raise NotFound("there is no secret of that name")
        removed = await self._secrets.remove(project, name, caller=caller_of(request))
        return json_response(self._answer(removed))

    async def rotate(self, request: web.Request) -> web.Response:
        """Encrypt all secrets anew, with a new key."""
        await self._bodies.decoded(request, partial(decode_one, RotationRequest))
        number = await self._secrets.rotate(caller=caller_of(request))
        return json_response(RotationAnswer(secrets=number))

    def _answer(self, secret: StoredSecret) -> SecretAnswer:
        return SecretAnswer(
            project=secret.project,
            name=secret.name,
            updated_at=rfc3339(secret.updated_at) or "",
            updated_by=secret.updated_by,
            readable=self._secrets.is_readable(secret),
        )


# ---- the table of the routes of secrets ----------------------------------------------------------


def secret_routes(secrets: SecretRoutes) -> list[Route]:
    """Return the routes of secrets."""
    return [
        Route(
            method="GET",
            path=_PROJECT,
            handler=secrets.list,
            operation_id="list_secrets",
            summary="List the secrets of a project, by name, without their values",
            description="With who set each and when; no answer has a value.",
            access=Access.MEMBERS,
            answer=(SecretList,),
            parameters=PAGE_PARAMETERS,
        ),
        Route(
            method="PUT",
            path=f"{_PROJECT}/{{name}}",
            handler=secrets.set,
            operation_id="set_secret",
            summary="Set a secret of a project, as its leads and admins may",
            description="Attempts that start from now on get the new value.",
            examples={"a password": {"value": "correct horse battery staple"}},
            refusals=(409,),
            access=Access.MEMBERS,
            request=(SecretSetRequest,),
            answer=(SecretAnswer,),
            status=200,
            also=(201,),
        ),
        Route(
            method="DELETE",
            path=f"{_PROJECT}/{{name}}",
            handler=secrets.remove,
            operation_id="remove_secret",
            summary="Remove a secret of a project, as its leads and admins may",
            description="What refers to it waits until it is set again.",
            access=Access.MEMBERS,
            answer=(SecretAnswer,),
        ),
        Route(
            method="POST",
            path="/v1/secret-keys/rotate",
            handler=secrets.rotate,
            operation_id="rotate_secret_keys",
            summary="Encrypt all secrets anew, with a new key, and forget the old ones",
            description="It may be asked for again at any time, also where it was interrupted.",
            examples={"all there is to say": {}},
            refusals=(409,),
            access=Access.ADMINS,
            request=(RotationRequest,),
            answer=(RotationAnswer,),
        ),
    ]
