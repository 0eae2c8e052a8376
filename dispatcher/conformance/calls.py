"""Checks of the four calls: create, list, set tags, destroy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from longshore.dispatcher.conformance.harness import Bench, Subject, Wish
from longshore.dispatcher.conformance.model import ForeignInstances, Nonconformity, NotShown
from longshore.drivers.errors import CloudAuthError, CloudError, InstanceNotFound, QuotaError
from longshore.drivers.interface import (
    CLUSTER_TAG,
    IDLE_BEHAVIOR_TAG,
    TOKEN_TAG,
    TYPE_TAG,
    Existence,
    Finds,
    Found,
    HostKeyVerdict,
    Instance,
    Leftovers,
    Power,
    TellsCondition,
)

_THREADS = 6
_OWN_TAG = "longshore-conformance"
_LONGEST_TYPE = "Typical.name_with-63-characters" + "x" * 32
"""As long, and as odd, as the name of an instance type may be."""


def check_create(bench: Bench) -> str:
    """Creating returns an instance with an id, tagged as asked."""
    subject = bench.first()
    if not subject.id:
        raise Nonconformity("the id of the new instance is empty", "return the cloud's")
    _expect_tags(subject.instance, subject.wish.tags, "the create call returns it")
    return subject.id


def check_listed(bench: Bench) -> None:
    """A new instance is listed with the tags of its create call, and not as of no use."""
    listed = bench.first_listed()
    _expect_tags(listed, bench.first().wish.tags, "it is listed")
    told = listed.condition.power if isinstance(listed, TellsCondition) else Power.ON
    if told is not Power.ON:
        raise Nonconformity(
            f"{listed.id}, which is new, is told to be {told.value}",
            "say `Power.ON` of what boots: some other words have an instance destroyed",
        )


def check_filter(bench: Bench) -> None:
    """A listing shows what carries all of the tags that it asks for, and nothing else."""
    subject = bench.first()
    bench.first_listed()
    shown = bench.patiently(lambda: bench.set.instances(dict(subject.wish.tags)))
    if subject.id not in {each.id for each in shown}:
        raise Nonconformity(
            f"{subject.id} is not listed when all of its tags are asked for",
            "list what carries all of them",
        )
    for wrong in ({TOKEN_TAG: bench.trial.new_token()}, {_OWN_TAG: "none has this"}):
        asked = dict(subject.wish.tags) | wrong
        shown = bench.patiently(partial(bench.set.instances, asked))
        if shown:
            raise Nonconformity(
                f"{shown[0].id} is listed for tags that it does not carry ({_said(wrong)})",
                "list only what carries all of the tags that are asked for, with these values",
            )


def check_set_tags(bench: Bench) -> None:
    """Tags are changed and added, and the others stay."""
    subject, before = bench.first(), bench.first_listed()
    changes = {IDLE_BEHAVIOR_TAG: "drain", _OWN_TAG: "added"}
    bench.patiently(lambda: before.set_tags(changes))
    _await_tags(bench, subject, {**before.tags, **changes})


def check_tag_values(bench: Bench) -> None:
    """A tag keeps its value to the letter, also a long one in capitals with dots."""
    subject = bench.first()
    changes = {TYPE_TAG: _LONGEST_TYPE}
    bench.patiently(lambda: bench.first_listed().set_tags(changes))
    _await_tags(bench, subject, changes)


def check_stale_object(bench: Bench) -> None:
    """Tags set through an old object undo nothing that was set since it was listed."""
    subject = bench.first()
    old = bench.first_listed()
    bench.patiently(lambda: bench.first_listed().set_tags({_OWN_TAG: "newer"}))
    _await_tags(bench, subject, {_OWN_TAG: "newer"})
    bench.patiently(lambda: old.set_tags({IDLE_BEHAVIOR_TAG: "hold"}))
    _await_tags(bench, subject, {_OWN_TAG: "newer", IDLE_BEHAVIOR_TAG: "hold"})


def check_threads(bench: Bench) -> None:
    """Listings from many threads at once all show the instance."""
    subject = bench.first()
    bench.first_listed()

    def look(_: int) -> bool:
        return subject.id in {each.id for each in bench.ours()}

    with ThreadPoolExecutor(_THREADS) as threads:
        seen = list(threads.map(look, range(2 * _THREADS)))
    if not all(seen):
        raise Nonconformity(
            f"{seen.count(False)} of {len(seen)} listings that were made at once do not show "
            f"{subject.id}",
            "share nothing between calls that is not safe to share, or take a lock",
        )


def check_same_token(bench: Bench) -> None:
    """A second create call with the same token returns the same instance."""
    subject = bench.first()
    again = bench.create(subject.wish)
    if again.id != subject.id:
        bench.destroy_now(again.instance)
        raise Nonconformity(
            f"the token of {subject.id} made {again.id} as well",
            "hand the token to the cloud, or look for it before creating",
        )


def check_other_set(bench: Bench) -> None:
    """Another instance set of the account lists the instance, and knows its token."""
    subject = bench.first()
    bench.first_listed()
    other = bench.open()
    try:
        shown = bench.patiently(lambda: other.instances({CLUSTER_TAG: bench.cluster}))
        if subject.id not in {each.id for each in shown}:
            raise Nonconformity(
                f"{subject.id} is not listed by an instance set that was made later",
                "keep nothing in memory that a restart loses: ask the cloud",
            )
        again = bench.create(subject.wish, into=other)
        if again.id != subject.id:
            bench.destroy_now(again.instance)
            raise Nonconformity(
                f"with the token of {subject.id}, an instance set that was made later makes "
                f"{again.id}",
                "keep no tokens in memory, which a restart loses: the cloud must know them",
            )
    finally:
        other.close()


def check_only_one(bench: Bench) -> None:
    """While there is one instance, another is refused as one of the account's limit."""
    subject = bench.first()
    try:
        second = bench.create()
    except QuotaError:
        return
    bench.destroy_now(second.instance)
    raise Nonconformity(
        f"{second.id} was made beside {subject.id}, and many-instances is not claimed",
        "claim it, or raise QuotaError",
    )


def check_one_token_at_once(bench: Bench) -> None:
    """Create calls with one token that are made at once make one instance."""
    bench.make_room()
    made = _at_once(bench, [bench.wish()] * _THREADS)
    try:
        ids = sorted({each.id for each in made})
        if len(ids) > 1:
            raise Nonconformity(
                f"{len(made)} calls at once with one token made {', '.join(ids)}",
                "hand the token to the cloud, or take a lock around looking and creating",
            )
    finally:
        _destroy_all(bench, made)


def check_many_at_once(bench: Bench) -> None:
    """Create calls with several tokens that are made at once make an instance each."""
    made = _at_once(bench, [bench.wish() for _ in range(3)])
    try:
        ids = {each.id for each in made}
        if len(ids) != len(made):
            raise Nonconformity(
                f"{len(made)} tokens made {len(ids)} instances", "make one for each token"
            )
        for each in made:
            bench.await_listed(each.id)
    finally:
        _destroy_all(bench, made)


def check_other_cluster(bench: Bench) -> None:
    """What carries the tag of another cluster is in no listing of ours."""
    with bench.own(cluster=bench.other_cluster) as subject:
        bench.until(
            lambda: (
                subject.id
                in {each.id for each in bench.set.instances({CLUSTER_TAG: bench.other_cluster})}
                or None
            ),
            bench.patience.listing_lag_s,
            f"{subject.id} is not listed by its own tag",
            "list all that carry the tags",
        )
        if bench.listed(subject.id) is not None:
            raise Nonconformity(
                f"{subject.id} is listed for {bench.cluster} and belongs to {bench.other_cluster}",
                "compare values of tags whole",
            )


def check_foreign(bench: Bench) -> None:
    """An instance that is not ours is not listed, and lives on whatever we destroy."""
    bed: object = bench.trial.bed
    if not isinstance(bed, ForeignInstances):
        raise NotShown("the test bed makes no foreign instances")
    foreign = bed.make_foreign()
    with bench.own() as subject:
        bench.await_listed(subject.id)
        if bench.listed(foreign) is not None:
            raise Nonconformity(
                f"the foreign instance {foreign} is listed as ours",
                "list only what carries all of the tags that are asked for",
            )
    bench.await_gone(subject.id)
    if not bed.is_running(foreign):
        raise Nonconformity(
            f"the foreign instance {foreign} was destroyed", "destroy by the cloud's own id"
        )


def check_destroy(bench: Bench) -> None:
    """A destroyed instance leaves the listing, and nobody can log in any more."""
    bench.gone_first()


def check_destroy_again(bench: Bench) -> None:
    """To destroy again what was destroyed is no error, through whichever object of it."""
    subject, old = bench.gone_first()
    for instance in (subject.instance, old, old):
        try:
            bench.patiently(instance.destroy)
        except InstanceNotFound:
            continue
        except CloudError as error:
            raise Nonconformity(
                f"to destroy {subject.id} again raises {type(error).__name__}: {error}",
                "take it for done, or raise InstanceNotFound",
            ) from error


def check_leftovers(bench: Bench) -> None:
    """Nothing stays of an instance that is gone: no volume, no network interface."""
    bench.gone_first()
    driver = bench.set
    if not isinstance(driver, Leftovers):
        raise NotShown("it does not list what stays, see capabilities")
    left = ["what stays cannot be listed"]

    def none_left() -> bool | None:
        try:
            found = driver.leftovers({CLUSTER_TAG: bench.cluster})
        except CloudAuthError as error:
            raise NotShown(f"these credentials may not look: {error}") from error
        left[:] = [f"{each.kind} {each.id} is there without its instance" for each in found]
        return None if left else True

    # What is ending may be seen without its instance for a moment.
    try:
        bench.until(none_left, bench.patience.gone_timeout_s, "no listing of what stays", "")
    except Nonconformity as error:
        raise Nonconformity(
            f"{error.what}: {', '.join(left)}",
            "have all that a create call makes end with its instance; delete what is left",
        ) from error


def check_unknown_id(bench: Bench) -> None:
    """What is asked of an instance that is gone is answered with InstanceNotFound."""
    subject, old = bench.gone_first()
    told = "raise nothing"
    try:
        bench.patiently(lambda: old.set_tags({_OWN_TAG: "late"}))
    except CloudError as error:
        told = f"raise {type(error).__name__}: {error}"
        known = isinstance(error, InstanceNotFound)
    else:
        known = False
    if not known:
        raise Nonconformity(
            f"{subject.id} is gone, and new tags for it {told}", "raise InstanceNotFound"
        )
    try:
        verdict = old.verify_host_key(bench.shell.strange_key)
    except CloudError:
        return
    if verdict is HostKeyVerdict.GENUINE:
        raise Nonconformity(
            f"{subject.id} is gone, and a key is called its own", "answer for what is there"
        )


def check_find(bench: Bench) -> None:
    """Asked by its id, an instance is there while it is, has ended once it has, else unknown."""
    assert isinstance(bench.set, Finds)  # noqa: S101 - `capabilities` looks at that
    asked = bench.set
    with bench.own() as subject:
        bench.await_listed(subject.id)
        _expect_found(bench, asked, subject.id, Existence.PRESENT)
        never = subject.id[:-3] + ("fed" if subject.id[-3:] != "fed" else "bad")
        told = Existence.UNKNOWN
        with suppress(CloudError):
            told = _told_of(bench, asked, never)
        if told is not Existence.UNKNOWN:
            raise Nonconformity(
                f"of {never}, which there never was, it says {told.value}",
                "say that nobody knows: an instance may be too new, or elsewhere",
            )
        bench.patiently(subject.instance.destroy)
        bench.await_gone(subject.id)
        _expect_found(bench, asked, subject.id, Existence.GONE)


def _expect_found(bench: Bench, asked: Finds, instance_id: str, wanted: Existence) -> None:
    bench.until(
        lambda: True if _told_of(bench, asked, instance_id) is wanted else None,
        bench.patience.listing_lag_s,
        f"it does not say that {instance_id} is {wanted.value}",
        "answer by the state that the cloud tells of that id",
    )


def _told_of(bench: Bench, asked: Finds, instance_id: str) -> Existence:
    told = bench.patiently(lambda: asked.find(instance_id))
    return told.existence if isinstance(told, Found) else told


def check_destroy_early(bench: Bench) -> None:
    """An instance can be destroyed before it has booted."""
    bench.make_room()
    subject = bench.create()
    bench.patiently(subject.instance.destroy)
    bench.await_gone(subject.id)


def _at_once(bench: Bench, wishes: Sequence[Wish]) -> list[Subject]:
    with ThreadPoolExecutor(len(wishes)) as threads:
        return list(threads.map(bench.create, wishes))


def _destroy_all(bench: Bench, made: Sequence[Subject]) -> None:
    for instance in {each.id: each.instance for each in made}.values():
        bench.destroy_now(instance)


def _await_tags(bench: Bench, subject: Subject, wanted: dict[str, str]) -> None:
    def look() -> bool | None:
        listed = bench.listed(subject.id)
        return True if listed is not None and wanted.items() <= listed.tags.items() else None

    bench.until(
        look,
        bench.patience.listing_lag_s,
        f"{subject.id} does not get or keep the tags {_said(wanted)}",
        "set exactly the tags that are given, and leave the others as the cloud has them now",
    )


def _expect_tags(instance: Instance, wanted: Mapping[str, str], when: str) -> None:
    lacking = {key: value for key, value in wanted.items() if instance.tags.get(key) != value}
    if lacking:
        raise Nonconformity(
            f"{instance.id} lacks {_said(lacking)} as {when}",
            "tag instances in the create call itself, and list the tags to the letter",
        )


def _said(tags: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(tags.items()))
