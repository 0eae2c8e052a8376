"""From what somebody who is trusted says of a caller to the caller, or to why it is not let in.

An issuer and a proxy say the same things in different ways: a user, projects, a role. What they
say is checked here as what users write is elsewhere; that one trusts them does not make a name of
whatever they send. What is too much or no good is refused and never cut short: who has fewer
projects than they know of would not learn why. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from longshore.dispatcher.domain.principals import PROJECTS_MOST, Door, Principal, Role
from longshore.dispatcher.input.text_rules import name_problem, text_problem

_USER_LENGTH_MOST = 200
_DEFAULT = "default"
_WITH_PROJECTS = frozenset({Role.USER, Role.LEAD})


class DenialKind(Enum):
    """Why somebody is not let in."""

    #: What is shown vouches for nobody.
    WORTHLESS = "worthless"
    #: It is known who asks, and that gives no right to ask.
    NO_RIGHT = "no right"
    #: The request says it in a way that can be read in several.
    MALFORMED = "malformed"
    #: Nobody can tell now.
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """Somebody is not let in, with a sentence that says why and what to do."""

    kind: DenialKind
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What is said of a caller, unchecked; projects in any order, perhaps twice."""

    user: str
    role: Role
    projects: tuple[str, ...]


def principal_of(claimed: Claimed, *, door: Door, until: float | None) -> Principal | Denial:
    """Return the caller of whom this is said, or why that is nobody's.

    `until` is when its right to ask ends, in seconds since the epoch, None for never. Projects are
    for the roles that have some; the one of what names none is "default" if that is among them,
    else the first by name.
    """
    if why := _user_problem(claimed.user):
        said = f"The user that you come as {why}."
        return Denial(kind=DenialKind.NO_RIGHT, sentence=said)
    projects = tuple(sorted(set(claimed.projects))) if claimed.role in _WITH_PROJECTS else ()
    if len(projects) > PROJECTS_MOST:
        said = (
            f"You come with {len(projects)} projects, and one caller may have {PROJECTS_MOST}: ask"
            " an admin for fewer."
        )
        return Denial(kind=DenialKind.NO_RIGHT, sentence=said)
    for project in projects:
        if why := name_problem(project):
            said = f"One of the projects that you come with {why}."
            return Denial(kind=DenialKind.NO_RIGHT, sentence=said)
    return Principal(
        user=claimed.user,
        role=claimed.role,
        door=door,
        projects=projects,
        default_project=projects[0] if projects and _DEFAULT not in projects else _DEFAULT,
        until=until,
    )


def _user_problem(user: str) -> str:
    if not user.strip():
        return "has no name: have an admin look at which claim or header has it"
    if len(user) > _USER_LENGTH_MOST:
        return f"has a name of {len(user)} characters, and {_USER_LENGTH_MOST} are the most"
    if not user.isprintable():
        # Also what no Unicode text has, which no store takes.
        return text_problem(user) or "has a name that cannot be shown: use plain text"
    return ""
