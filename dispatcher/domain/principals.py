"""Who asks: what is known of a caller, and what that lets it see and do.

A caller is an admin, or has projects. It sees what is in its projects, and acts on what is its own
there; a lead acts on all of it. What it does not see is not there for it: `NotFound`, never
`Forbidden`, so that nobody learns by asking what others have.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

ANONYMOUS = "anonymous"
"""The user of what was submitted without saying who one is, in open mode."""
PROJECTS_MOST = 100
"""How many projects one caller may have: a listing asks for each of them."""


class Role(Enum):
    """What a caller may do at most."""

    #: Sees its projects, and acts on its own containers and jobs.
    USER = "user"
    #: Acts on all that is in its projects.
    LEAD = "lead"
    #: Sees and does everything.
    ADMIN = "admin"
    #: Reads metrics and health, nothing else.
    METRICS = "metrics"


class Door(Enum):
    """How a caller came in, which is what vouches for it."""

    #: The server asks nobody who they are: everybody on this machine is an admin.
    OPEN = "open"
    #: A token of the server's own.
    TOKEN = "token"  # noqa: S105 - a word, not a password
    #: The Unix socket in the data directory: the kernel says which user it is.
    SOCKET = "socket"
    #: A JSON Web Token of the OpenID Connect issuer.
    ISSUER = "issuer"
    #: Headers of a proxy that is trusted.
    PROXY = "proxy"
    #: The socket inside a container: the server knows whose it is.
    CONTAINER = "container"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """One caller, as it was let in."""

    user: str
    role: Role
    door: Door
    #: What it sees, sorted, none twice; of an admin nothing is asked.
    projects: tuple[str, ...] = ()
    #: The project of what does not name one.
    default_project: str = "default"
    #: The id of the token of ours, "" where there is none.
    token_id: str = ""
    #: When its right to ask ends, in seconds since the epoch, None for never.
    until: float | None = None
    #: The container that it asks from, "" where it is none.
    container_id: str = ""
    #: The attempt of that, with which its right to ask ends; "" where it is none.
    attempt_id: str = ""

    @property
    def is_local(self) -> bool:
        """Return whether it came by a door that only this machine has: it is held to no share."""
        return self.door in (Door.OPEN, Door.SOCKET)

    @property
    def is_admin(self) -> bool:
        """Return whether it sees and does everything."""
        return self.role is Role.ADMIN

    @property
    def key_scope(self) -> str:
        """Return within what its idempotency keys are its own: its user, inside its container."""
        # No user's name has more than one line.
        return f"{self.user}\n{self.container_id}" if self.container_id else self.user

    def sees(self, project: str) -> bool:
        """Return whether what is in `project` is there for it."""
        return self.is_admin or project in self.projects

    def acts_on(self, *, project: str, user: str) -> bool:
        """Return whether it may change what `user` has in `project`, provided that it sees it."""
        match self.role:
            case Role.ADMIN:
                return True
            case Role.LEAD:
                return project in self.projects
            case Role.USER:
                return project in self.projects and user == self.user
            case Role.METRICS:
                return False


ANYBODY = Principal(user=ANONYMOUS, role=Role.ADMIN, door=Door.OPEN)
"""Who asks in open mode."""
