"""The one outcome of a driver call, whoever has the first word on it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from longshore.drivers.errors import CloudError
from longshore.pool.messages import (
    CreateFailed,
    CreateInstance,
    DestroyFailed,
    DestroyInstance,
    FindFailed,
    FindInstance,
    ListingFailed,
    ListInstances,
    PoolEvent,
    SetTags,
    TagsFailed,
)

Post = Callable[[PoolEvent], None]
CloudCommand = ListInstances | CreateInstance | DestroyInstance | SetTags | FindInstance


class Outcome:
    """Lets the first of several words on a command through, and no other."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._told = False

    @property
    def told(self) -> bool:
        """Return whether a word was let through."""
        return self._told

    def tell(self, event: PoolEvent) -> bool:
        """Post the event unless one was posted; return whether it was this one."""
        with self._lock:
            if self._told:
                return False
            self._told = True
        self._post(event)
        return True


def failed(command: CloudCommand, error: CloudError) -> PoolEvent:
    """Return the outcome that says that a call failed."""
    match command:
        case ListInstances():
            return ListingFailed(op_id=command.op_id, error=error)
        case CreateInstance():
            return CreateFailed(op_id=command.op_id, token=command.launch.token, error=error)
        case DestroyInstance():
            return DestroyFailed(op_id=command.op_id, instance_id=command.instance_id, error=error)
        case SetTags():
            return TagsFailed(op_id=command.op_id, instance_id=command.instance_id, error=error)
        case FindInstance():
            return FindFailed(op_id=command.op_id, instance_id=command.instance_id, error=error)
