"""A mix put in order: no instance that is not needed, no room that is wanted; pure."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.planner.mix_market import Contents, Group, Market, Mix, Room


class _Piece:
    """Equal instances while they are changed: their type, contents, number, and room on each."""

    __slots__ = ("contents", "room", "times", "type")

    def __init__(self, market: Market, type_: int, contents: Contents, times: int) -> None:
        self.type = type_
        self.contents = dict(contents)
        self.times = times
        self.room: Room = market.empty(type_)
        for number, count in contents:
            self.room.take(number, count)

    def frozen(self) -> Contents:
        """Return the contents as a group has them."""
        return tuple(self.contents.items())


def trimmed(mix: Mix) -> Mix:
    """Return a mix that holds the same, on the cheapest types for it and on no needless instance.

    No instance of it could be left out with its contents put into the room of the others by turns,
    and none could be of a cheaper type.
    """
    while True:
        slim = _retyped(mix)
        fewer = _dissolved(slim)
        if fewer is None:
            return slim
        mix = fewer


def topped_up(mix: Mix) -> Mix:
    """Return a mix of the same instances that hold also what fits of what is left, in order."""
    market = mix.market
    pieces = _pieces(market, mix.groups)
    left = list(mix.left)
    for number, count in enumerate(left):
        if count:
            left[number] -= _put(market, pieces, number, count)
    return _mixed(market, pieces, left)


def _pieces(market: Market, groups: Sequence[Group]) -> list[_Piece]:
    return [_Piece(market, group.type, group.contents, group.times) for group in groups]


def _mixed(market: Market, pieces: Sequence[_Piece], left: Sequence[int]) -> Mix:
    mix = Mix.nothing(market, left)
    for piece in pieces:
        if piece.times:
            mix.keep(Group(piece.type, piece.frozen(), piece.times))
    return mix


def _put(market: Market, pieces: list[_Piece], number: int, count: int) -> int:
    """Put containers of a class into free room; return how many found some.

    Where only some of equal instances change, they become a piece of their own.
    """
    put = 0
    for piece in list(pieces):
        each = piece.room.fits(number, count - put) if piece.times and put < count else 0
        if not each:
            continue
        times = min(piece.times, (count - put) // each)
        if times < piece.times:
            pieces.append(_Piece(market, piece.type, piece.frozen(), piece.times - times))
            piece.times = times
        piece.room.take(number, each)
        piece.contents[number] = piece.contents.get(number, 0) + each
        put += each * times
    return put


def _retyped(mix: Mix) -> Mix:
    """Return a mix with each instance of the cheapest type that may hold its contents."""
    market = mix.market
    after = Mix.nothing(market, mix.left)
    bought = list(mix.bought)
    for group in mix.groups:
        rest = group.times
        for type_ in market.options[group.contents[0][0]]:
            if type_ >= group.type:
                break
            most = market.most[type_]
            times = rest if most is None else min(rest, most - bought[type_])
            if times > 0 and market.holds(type_, group.contents):
                after.keep(Group(type_, group.contents, times))
                bought[type_] += times
                bought[group.type] -= times
                rest -= times
        if rest:
            after.keep(Group(group.type, group.contents, rest))
    return after


def _dissolved(mix: Mix) -> Mix | None:
    """Return a mix with fewer instances that holds the same, None when it is not found.

    What was bought last is the least well filled, so it goes first.
    """
    market = mix.market
    pieces = _pieces(market, mix.groups)
    for piece in pieces[::-1]:
        if not _has_place(pieces, piece):
            continue
        for sign in (1, -1):
            others = _copies(market, pieces, piece)
            contents = sorted(piece.contents.items(), key=lambda pair: sign * pair[1])
            if all(_put(market, others, number, count) == count for number, count in contents):
                return _mixed(market, others, mix.left)
    return None


def _has_place(pieces: Sequence[_Piece], gone: _Piece) -> bool:
    """Return whether each class that one instance holds, taken alone, fits beside the others."""
    for number, count in gone.contents.items():
        lacking = count
        for piece in pieces:
            times = piece.times - (piece is gone)
            if times:
                lacking -= times * piece.room.fits(number, lacking)
                if lacking <= 0:
                    break
        if lacking > 0:
            return False
    return True


def _copies(market: Market, pieces: Sequence[_Piece], gone: _Piece) -> list[_Piece]:
    """Return copies of all instances but one of `gone`."""
    return [
        _Piece(market, piece.type, piece.frozen(), piece.times - (piece is gone))
        for piece in pieces
        if piece.times > (piece is gone)
    ]
