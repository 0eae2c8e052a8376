"""Planted defects of the copy of an engine on which a plan is tried."""

from __future__ import annotations

from tests.sim.planting import Mutant

_FAULT = "users who ask what a job would come to"


def _mutant(name: str, guard: str, where: str, old: str, new: str) -> Mutant:
    return Mutant(name=name, guard=guard, fault=_FAULT, where=where, old=old, new=new)


TRIAL_MUTANTS: tuple[Mutant, ...] = (
    _mutant(
        "a trial fills the engine's lists",
        "a trial has lists of its own",
        "longshore.dispatcher.engine.fork:_Copies._sequence",
        "copied = self._keep(thing, thing.copy())",
        "copied = self._keep(thing, thing)",
    ),
    _mutant(
        "a trial fills the engine's mappings",
        "a trial has mappings of its own",
        "longshore.dispatcher.engine.fork:_Copies._mapping",
        "copied = self._keep(thing, kind.__new__(kind))",
        "copied = self._keep(thing, thing)",
    ),
    _mutant(
        "a trial fills the engine's mappings of values",
        "a trial has mappings of its own, of values too",
        "longshore.dispatcher.engine.fork:_Copies._mapping",
        "return self._keep(thing, thing.copy())",
        "return self._keep(thing, thing)",
    ),
    _mutant(
        "a trial fills the engine's sets",
        "a trial has sets of its own",
        "longshore.dispatcher.engine.fork:_Copies._copied",
        "return self._keep(thing, set(thing))",
        "return self._keep(thing, thing)",
    ),
    _mutant(
        "a trial changes the engine's objects",
        "a trial has objects of its own: workers, launches, rooms",
        "longshore.dispatcher.engine.fork:_Copies._fill",
        "setattr(copied, name, of(value))",
        "setattr(copied, name, value)",
    ),
    _mutant(
        "a trial asks the engine's parts",
        "what one part of a trial asks of another is asked of the trial's",
        "longshore.dispatcher.engine.fork:_Copies._copied",
        "return self._keep(thing, MethodType(thing.__func__, self.of(thing.__self__)))",
        "return thing",
    ),
    _mutant(
        "a trial looks into the engine",
        "a function that refers to what is copied refers to the copy",
        "longshore.dispatcher.engine.fork:_Copies._function",
        "if thing.__closure__ is None:",
        "if True:",
    ),
    _mutant(
        "a trial lets the engine's containers wait",
        "a trial has a queue of its own",
        "longshore.dispatcher.state.queue:SortedIndex.copy",
        "[chunk.copy() for chunk in self._chunks]",
        "self._chunks",
    ),
    _mutant(
        "a trial orders the engine's containers",
        "a trial knows of its own who waits in a class",
        "longshore.dispatcher.engine.fork:_Copies._shallow",
        "thing.copy()",
        "thing",
    ),
    _mutant(
        "a trial uses up tokens",
        "a trial makes launches with tokens of its own",
        "longshore.dispatcher.engine.fork:trial_of",
        "(pool.new_token, names.token),",
        "(pool.new_token, pool.new_token),",
    ),
    _mutant(
        "a trial uses up ids",
        "a trial makes containers with ids of its own",
        "longshore.dispatcher.engine.fork:trial_of",
        "(engine.new_container, names.container),",
        "(engine.new_container, engine.new_container),",
    ),
    _mutant(
        "a plan is made on the engine",
        "a plan is tried on a copy",
        "longshore.dispatcher.engine.fork:EngineFork.of",
        "cls(trial_of(engine))",
        "cls(engine)",
    ),
)
