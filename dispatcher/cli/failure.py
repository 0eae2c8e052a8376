"""How a command ends when it does not end well: one sentence, a remedy, an exit code."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.dispatcher.cli.output import safe

FAILED = 1
USAGE = 2
UNREACHABLE = 3
TIMED_OUT = 124
INTERRUPTED = 130


class CommandFailure(Exception):  # noqa: N818 - it is what a person reads, and never escapes `main`
    """A command failed; `main` prints it on stderr and exits with `exit_code`."""

    def __init__(
        self,
        sentence: str,
        *,
        remedy: str = "",
        exit_code: int = FAILED,
        problems: Sequence[tuple[str, str]] = (),
        status: int = 0,
        in_doubt: bool = False,
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.remedy = remedy
        self.exit_code = exit_code
        #: (path, message) pairs, printed one a line below the sentence.
        self.problems = tuple(problems)
        self.status = status
        #: Whether what was asked of the server may be done all the same.
        self.in_doubt = in_doubt

    @property
    def passing(self) -> bool:
        """Return whether the server may be well again soon."""
        return self.exit_code == UNREACHABLE or self.status >= 500 or self.status == 429

    def lines(self) -> list[str]:
        """Return what is printed: the sentence with its remedy, then the problems.

        Much of it is what a server said; nothing in it acts on a terminal.
        """
        first = f"longshore: {self.sentence}"
        if self.remedy:
            first = f"{first.rstrip('.')}. {self.remedy}"
        problems = [f"  {path}: {what}" if path else f"  {what}" for path, what in self.problems]
        return [safe(line) for line in (first, *problems)]
