"""Who asks: what the doors found out about a request's caller, for the routes."""

from __future__ import annotations

from enum import Enum

from aiohttp import web

from longshore.dispatcher.domain.principals import Principal, Role

_CALLER = web.RequestKey("caller", Principal)
_WHAT = web.RequestKey("what", str)


class Access(Enum):
    """Whom a route answers, before it looks at what is asked of it."""

    #: Anybody, also who does not say who they are: there is nothing in it to keep.
    PUBLIC = "public"
    #: Whoever has containers and jobs, each for what they see.
    MEMBERS = "members"
    #: Who reads metrics, and admins.
    MONITORING = "monitoring"
    ADMINS = "admins"
    #: Whoever is let in, whatever their role.
    KNOWN = "known"


_ROLES = {
    Access.MEMBERS: frozenset({Role.USER, Role.LEAD, Role.ADMIN}),
    Access.MONITORING: frozenset({Role.METRICS, Role.ADMIN}),
    Access.ADMINS: frozenset({Role.ADMIN}),
    Access.KNOWN: frozenset(Role),
}


def allows(access: Access, role: Role) -> bool:
    """Return whether a route with this access answers callers of this role."""
    return access is Access.PUBLIC or role in _ROLES[access]


def refusal_of(access: Access, role: Role) -> str:
    """Return why a caller of this role is not answered, and who is."""
    able = " or ".join(sorted(each.value for each in _ROLES[access]))
    return f"This takes the role {able}, and yours is {role.value}."


def set_caller(request: web.Request, caller: Principal) -> None:
    """Note who asks, once."""
    request[_CALLER] = caller


def known_caller(request: web.Request) -> Principal | None:
    """Return who asks where that need not be known, None for nobody."""
    return request.get(_CALLER)


def note_change(request: web.Request, what: str) -> None:
    """Say for the audit log what is asked for, where method and path do not; nothing secret."""
    request[_WHAT] = what


def change_noted(request: web.Request) -> str:
    """Return what was said for the audit log, "" for nothing."""
    return str(request.get(_WHAT, ""))


def holder_of(request: web.Request) -> str:
    """Return whose share a request takes of what all callers share: a user's, by name.

    Tokens make no difference: one may have many. "" is for who is held to no share.
    """
    caller = known_caller(request)
    return "" if caller is None or caller.is_local else caller.user


def caller_of(request: web.Request) -> Principal:
    """Return who asks; of a public route it is nobody's to ask."""
    return request[_CALLER]
