"""Policies: what admins let whom ask for, and what those get who do not say; pure.

A policy says for whom it is (roles, projects) and has rules. All that are for a caller hold at
once: of several ceilings the lowest, of several lists what is in all of them. What asks for more
is refused with every rule that it breaks; what it leaves open is filled in, so that the
scheduler needs to know no policy. What was taken in is not looked at again when a policy changes.

Time limits are for what ends by itself: neither `system` jobs nor elastic ones, whose `runtime_s`
is another thing, get one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fnmatch import fnmatchcase

from longshore.dispatcher.domain.containers import (
    PRIORITY_DEFAULT,
    ContainerSpec,
    Preemptible,
)
from longshore.dispatcher.domain.principals import Principal, Role

PathAndSentence = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules for some callers; None and () of a rule are no rule."""

    name: str
    roles: frozenset[Role]
    #: Patterns as of a shell, of which one must match; () for all projects.
    projects: tuple[str, ...] = ()
    time_limit_default_s: float | None = None
    time_limit_max_s: float | None = None
    priority_max: int | None = None
    #: What an instance may cost an hour.
    price_max_usd_per_hour: Decimal | None = None
    array_size_max: int | None = None
    cpu_millis_max: int | None = None
    gpus_max: int | None = None
    #: What the name of each label begins with; () for no rule.
    label_prefixes: tuple[str, ...] = ()
    #: What an image begins with; what has no image keeps the rule too.
    image_prefixes: tuple[str, ...] = ()
    #: Whether all runs on instances that the cloud can take back.
    preemptible_only: bool = False
    #: Sorted names of the types that are allowed; () for all.
    instance_types: tuple[str, ...] = ()

    def is_for(self, role: Role, project: str) -> bool:
        """Return whether its rules hold for callers of this role in this project."""
        patterns = self.projects or ("*",)
        return role in self.roles and any(fnmatchcase(project, each) for each in patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One container, or one task of a job, as it is asked for."""

    #: Where it stands in the request, with its final dot, "" for the request itself.
    path: str
    spec: ContainerSpec
    #: How many containers an array has, 1 where it is none.
    size: int = 1
    #: Whether it ends by itself, so that it can have a time limit.
    is_timed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRequest:
    """What a policy of an admin's own is asked about: one container or task, before it is taken in.

    `spec` is as the built-in policies left it.
    """

    caller: Principal
    project: str
    priority: int
    spec: ContainerSpec
    #: How many containers of it there will be.
    size: int


OwnPolicy = Callable[[PolicyRequest], Iterable[str]]
"""A policy of an admin's own: a sentence for each thing that it refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Governed:
    """What became of a request: what is taken in, or why it is not."""

    specs: tuple[ContainerSpec, ...]
    priority: int
    problems: tuple[PathAndSentence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """All policies of a server, and the names of those that are an admin's own."""

    rules: tuple[Policy, ...] = ()
    own: tuple[tuple[str, OwnPolicy], ...] = ()

    def governed(
        self, asked: Sequence[Asked], *, caller: Principal, project: str, priority: int
    ) -> Governed:
        """Return what a caller's request becomes under the policies, with all that they refuse.

        `priority` is that of the whole. What an admin's own policy raises is its defect, and goes
        through: nothing is taken in that it did not pass.
        """
        held = [each for each in self.rules if each.is_for(caller.role, project)]
        if not held and not self.own:
            specs = tuple(each.spec for each in asked)
            return Governed(specs=specs, priority=priority, problems=())
        problems: list[PathAndSentence] = []
        given = _priority_given(held, priority)
        problems += _priority_problems(held, given)
        specs = tuple(_filled_in(held, each) for each in asked)
        for each, spec in zip(asked, specs, strict=True):
            problems += _problems(held, replace(each, spec=spec))
            request = PolicyRequest(
                caller=caller, project=project, priority=given, spec=spec, size=each.size
            )
            for name, policy in self.own:
                problems += [
                    (each.path.rstrip("."), f"{s} (policy {name})") for s in policy(request)
                ]
        return Governed(specs=specs, priority=given, problems=tuple(problems))

    def priority_problems(
        self, *, caller: Principal, project: str, priority: int
    ) -> list[PathAndSentence]:
        """Return why what there is may not get a priority, nothing where it may."""
        held = [each for each in self.rules if each.is_for(caller.role, project)]
        return _priority_problems(held, priority)


NO_POLICIES = Policies()


def _priority_given(held: Iterable[Policy], priority: int) -> int:
    """Return the priority of a request: the default one is never more than may be asked for."""
    if priority != PRIORITY_DEFAULT:
        return priority
    return min([priority, *(each.priority_max for each in held if each.priority_max is not None)])


def _priority_problems(held: Iterable[Policy], priority: int) -> list[PathAndSentence]:
    return [
        ("priority", f"is {priority}: policy {each.name} allows {each.priority_max} at most")
        for each in held
        if each.priority_max is not None and priority > each.priority_max
    ]


# ---- what is filled in ---------------------------------------------------------------------------


def _filled_in(held: Sequence[Policy], asked: Asked) -> ContainerSpec:
    """Return a specification with what its caller left open, as the policies have it."""
    spec = asked.spec
    if asked.is_timed and spec.time_limit_s is None:
        limits = [
            limit_s
            for each in held
            for limit_s in (each.time_limit_default_s or each.time_limit_max_s,)
            if limit_s is not None
        ]
        spec = replace(spec, time_limit_s=min(limits)) if limits else spec
    constraints = spec.constraints
    if any(each.preemptible_only for each in held) and (
        constraints.preemptible is Preemptible.ALLOWED
    ):
        constraints = replace(constraints, preemptible=Preemptible.REQUIRED)
    prices = [p for each in held if (p := each.price_max_usd_per_hour) is not None]
    if prices and constraints.max_price_usd_per_hour is None:
        constraints = replace(constraints, max_price_usd_per_hour=min(prices))
    lists = [set(each.instance_types) for each in held if each.instance_types]
    if lists and not constraints.instance_types:
        constraints = replace(constraints, instance_types=tuple(sorted(set.intersection(*lists))))
    return spec if constraints is spec.constraints else replace(spec, constraints=constraints)


# ---- what is refused -----------------------------------------------------------------------------


def _problems(held: Iterable[Policy], asked: Asked) -> Iterator[PathAndSentence]:
    for policy in held:
        for rule in _RULES:
            for field, sentence in rule(policy, asked):
                yield f"{asked.path}{field}", f"{sentence} (policy {policy.name})"


def _time_limit(policy: Policy, asked: Asked) -> Iterator[PathAndSentence]:
    most_s, wanted_s = policy.time_limit_max_s, asked.spec.time_limit_s
    if asked.is_timed and most_s is not None and wanted_s is not None and wanted_s > most_s:
        yield "time_limit_s", f"is {wanted_s:g}: at most {most_s:g} are allowed"


def _price(policy: Policy, asked: Asked) -> Iterator[PathAndSentence]:
    most = policy.price_max_usd_per_hour
    wanted = asked.spec.constraints.max_price_usd_per_hour
    if most is not None and wanted is not None and wanted > most:
        yield "constraints.max_price_per_hour", f"is {wanted}: at most {most} is allowed"


def _array_size(policy: Policy, asked: Asked) -> Iterator[PathAndSentence]:
    if policy.array_size_max is not None and asked.size > policy.array_size_max:
        yield "array", f"has {asked.size} elements: at most {policy.array_size_max} are allowed"


def _cpus(policy: Policy, asked: Asked) -> Iterator[PathAndSentence]:
    most, wanted = policy.cpu_millis_max, asked.spec.resources.cpu_millis
    if most is not None and wanted > most:
        yield "cpus", f"are {wanted / 1000:g}: at most {most / 1000:g} are allowed"


def _gpus(policy: Policy, asked: Asked) -> Iterator[PathAndSentence]:
    most, wanted = policy.gpus_max, asked.spec.resources.gpus
    if most is not None and wanted > most:
        yield "gpus", f"are {wanted}: at most {most} are allowed"


def _labels(policy: Policy, asked: Asked) -> Iterator[PathAndSentence]:
    if not policy.label_prefixes:
        return
    allowed = ", ".join(policy.label_prefixes)
    for name, _ in asked.spec.labels:
        if not name.startswith(policy.label_prefixes):
            yield f"labels.{name}", f"begins with none of {allowed}"


def _image(policy: Policy, asked: Asked) -> Iterator[PathAndSentence]:
    if policy.image_prefixes and not asked.spec.image.startswith(policy.image_prefixes):
        allowed = ", ".join(policy.image_prefixes)
        what = "begins with none of" if asked.spec.image else "is needed, and begins with one of"
        yield "image", f"{what} {allowed}"


def _preemptible(policy: Policy, asked: Asked) -> Iterator[PathAndSentence]:
    wanted = asked.spec.constraints.preemptible
    if policy.preemptible_only and wanted is not Preemptible.REQUIRED:
        said = f"is {wanted.value}: only instances that the cloud can take back are allowed"
        yield "constraints.preemptible", said


def _types(policy: Policy, asked: Asked) -> Iterator[PathAndSentence]:
    if not policy.instance_types:
        return
    wanted = asked.spec.constraints.instance_types
    foreign = [each for each in wanted if each not in policy.instance_types]
    if foreign or not wanted:
        named = ", ".join(foreign) or "none that every policy allows"
        allowed = ", ".join(policy.instance_types)
        yield "constraints.instance_types", f"has {named}: {allowed} are allowed"


_RULES = (
    _time_limit,
    _price,
    _array_size,
    _cpus,
    _gpus,
    _labels,
    _image,
    _preemptible,
    _types,
)
