"""From the body that asks for a token to what it is to be; all problems at once.

Stands alone: routes read requests, and what a body may say is decided in this folder.
"""

from __future__ import annotations

from longshore.dispatcher.api.schemas.tokens import TokenRequest
from longshore.dispatcher.api.validate.containers import check_project
from longshore.dispatcher.api.validate.rfc3339 import parse_moment
from longshore.dispatcher.domain.principals import Role
from longshore.dispatcher.input.problems import Problems, element
from longshore.dispatcher.input.text_rules import text_problem
from longshore.dispatcher.service.tokens import NewToken
from longshore.drivers.errors import InvalidRequest


def checked_token(wanted: TokenRequest) -> NewToken:
    """Return what a token is to be; raises `InvalidRequest` with all that is wrong."""
    problems = Problems()
    for path, text in (("user", wanted.user), ("name", wanted.name)):
        if wrong := text_problem(text):
            problems.add(path, wrong)
    for number, project in enumerate(wanted.projects):
        check_project(project, element("projects", number), problems)
    check_project(wanted.default_project or None, "default_project", problems)
    expires_at = None
    if wanted.expires_at is not None:
        try:
            expires_at = parse_moment(wanted.expires_at)
        except ValueError as error:
            problems.add("expires_at", str(error))
    if problems:
        raise InvalidRequest(problems.listed())
    return NewToken(
        name=wanted.name,
        user=wanted.user,
        role=Role(wanted.role),
        projects=tuple(sorted(set(wanted.projects))),
        default_project=wanted.default_project,
        expires_at=expires_at,
    )
