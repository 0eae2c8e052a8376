"""A solution put in order: no instance that is not needed, no room that is wanted; pure."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.dispatcher.scheduler.scale_up.problem import Bin, Group, PackingProblem, Solution


class _Piece:
    """Equal instances and the room on each of them; it never changes."""

    __slots__ = ("contents", "room", "times", "type")

    def __init__(self, type_: int, contents: dict[int, int], times: int, room: Bin) -> None:
        self.type = type_
        self.contents = contents
        self.times = times
        self.room = room

    def fewer(self, times: int) -> _Piece:
        """Return so many of these instances."""
        return _Piece(self.type, self.contents, times, self.room)

    def fuller(self, number: int, count: int, times: int) -> _Piece:
        """Return so many of these instances, each with `count` more of a class."""
        contents = {**self.contents, number: self.contents.get(number, 0) + count}
        room = self.room.copy()
        room.take(number, count)
        return _Piece(self.type, contents, times, room)


class _Pieces:
    """The instances of a solution while containers are put into their free room."""

    def __init__(self, problem: PackingProblem, groups: Sequence[Group]) -> None:
        self.all: dict[_Piece, None] = {
            _Piece(group.type, dict(group.contents), group.times, problem.filled(group)): None
            for group in groups
        }
        self._open: dict[int, list[_Piece]] = {}

    def open_for(self, number: int) -> list[_Piece]:
        """Return the instances that have room for a container of a class."""
        found = self._open.get(number)
        if found is None:
            found = [piece for piece in self.all if piece.room.fits(number, 1)]
            self._open[number] = found
        return found

    def replace(self, old: _Piece, new: Sequence[_Piece]) -> None:
        """Put other instances in the place of some."""
        del self.all[old]
        self.all.update(dict.fromkeys(new))
        for number, found in self._open.items():
            if old in found:
                found.remove(old)
            found += [piece for piece in new if piece.room.fits(number, 1)]

    def restore(self, old: _Piece, new: Sequence[_Piece]) -> None:
        """Undo the latest `replace`."""
        for piece in new:
            del self.all[piece]
        self.all[old] = None
        for number, found in self._open.items():
            found[:] = [piece for piece in found if piece not in new]
            if old.room.fits(number, 1):
                found.append(old)

    def put(self, number: int, count: int) -> tuple[int, list[tuple[_Piece, list[_Piece]]]]:
        """Put containers of a class into free room; return how many found some, and what changed.

        Where only some of equal instances change, they become a piece of their own.
        """
        changes = []
        put = 0
        while put < count and (found := self.open_for(number)):
            piece = found[0]
            each = piece.room.fits(number, count - put)
            times = min(piece.times, (count - put) // each)
            new = [piece.fuller(number, each, times)]
            if times < piece.times:
                new.append(piece.fewer(piece.times - times))
            self.replace(piece, new)
            changes.append((piece, new))
            put += each * times
        return put, changes

    def solution(self, problem: PackingProblem, left: Sequence[int]) -> Solution:
        """Return these instances as a solution."""
        solution = Solution.nothing(problem, left)
        for piece in self.all:
            solution.keep(Group(piece.type, tuple(piece.contents.items()), piece.times))
        return solution


def trimmed(solution: Solution) -> Solution:
    """Return a solution that holds the same, on the cheapest types and on no needless instance.

    No instance of it could be left out with its contents put into the room of the others by turns,
    and none could be of a cheaper type.
    """
    while True:
        slim = _retyped(solution)
        fewer = _dissolved(slim)
        if fewer is None:
            return slim
        solution = fewer


def topped_up(solution: Solution) -> Solution:
    """Return the same instances holding also what fits of what is left, in order."""
    pieces = _Pieces(solution.problem, solution.groups)
    left = list(solution.left)
    for number, count in enumerate(left):
        if count:
            left[number] -= pieces.put(number, count)[0]
    return pieces.solution(solution.problem, left)


def _retyped(solution: Solution) -> Solution:
    """Return a solution with each instance of the cheapest type that may hold its contents."""
    problem = solution.problem
    after = Solution.nothing(problem, solution.left)
    bought = list(solution.bought)
    for group in solution.groups:
        rest = group.times
        for type_ in problem.options[group.contents[0][0]]:
            if type_ >= group.type:
                break
            most = problem.most[type_]
            times = rest if most is None else min(rest, most - bought[type_])
            if times > 0 and problem.holds(type_, group.contents):
                after.keep(Group(type_, group.contents, times))
                bought[type_] += times
                bought[group.type] -= times
                rest -= times
        if rest:
            after.keep(Group(group.type, group.contents, rest))
    return after


def _dissolved(solution: Solution) -> Solution | None:
    """Return a solution with fewer instances that holds the same, None when it is not found.

    What was bought last is the least well filled, so it goes first.
    """
    pieces = _Pieces(solution.problem, solution.groups)
    found = False
    waiting = list(pieces.all)
    while waiting:
        piece = waiting.pop()
        if piece in pieces.all and _dissolve(pieces, piece):
            found = True
            if piece.times > 1:
                waiting += [p for p in pieces.all if p.room is piece.room]
    return pieces.solution(solution.problem, solution.left) if found else None


def _dissolve(pieces: _Pieces, gone: _Piece) -> bool:
    """Put what one of equal instances holds into the room of others; change nothing if it fails."""
    if not all(_has_place(pieces, gone, *pair) for pair in gone.contents.items()):
        return False
    rest = [gone.fewer(gone.times - 1)] if gone.times > 1 else []
    changes = [(gone, rest)]
    pieces.replace(gone, rest)
    for number, count in gone.contents.items():
        put, made = pieces.put(number, count)
        changes += made
        if put < count:
            for old, new in reversed(changes):
                pieces.restore(old, new)
            return False
    return True


def _has_place(pieces: _Pieces, gone: _Piece, number: int, count: int) -> bool:
    """Return whether what one instance holds of a class, taken alone, fits beside the others."""
    lacking = count
    for piece in pieces.open_for(number):
        times = piece.times - (piece is gone)
        lacking -= times * piece.room.fits(number, lacking)
        if lacking <= 0:
            return True
    return False
