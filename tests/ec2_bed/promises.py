"""EC2's documented promise about `ClientToken`, which moto ignores, and what became of each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


class TokenMismatch(Exception):  # noqa: N818 - EC2's own name for it
    """A token came again with other parameters."""


@dataclass(slots=True)
class _Launch:
    parameters: frozenset[tuple[str, str]]
    instance_id: str = ""
    calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class ClientTokens:
    """Which instance each token stands for: same parameters, same instance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._launches: dict[str, _Launch] = {}

    @contextmanager
    def launching(
        self, parameters: Mapping[str, str]
    ) -> Iterator[tuple[str, Callable[[str], None]]]:
        """Yield the id of the instance that the token has made ("" for none), and a function that
        is told the one it makes now; others with the same token wait meanwhile.

        Raises `TokenMismatch`.
        """
        token = parameters["ClientToken"]
        asked = frozenset(parameters.items())
        with self._lock:
            launch = self._launches.setdefault(token, _Launch(asked))
            launch.calls += 1
        with launch.lock:
            if not launch.instance_id:
                # A launch that made nothing binds nobody to its parameters.
                launch.parameters = asked
            elif launch.parameters != asked:
                raise TokenMismatch(token)

            def made(instance_id: str) -> None:
                launch.instance_id = instance_id

            yield launch.instance_id, made

    def calls(self) -> dict[str, int]:
        """Return how often each token came."""
        with self._lock:
            return {token: launch.calls for token, launch in self._launches.items()}

    def clear(self) -> None:
        """Forget all tokens."""
        with self._lock:
            self._launches.clear()
