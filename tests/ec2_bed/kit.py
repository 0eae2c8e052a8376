"""The bed as the conformance kit asks for one: trouble on demand, and the cloud's own word."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from longshore.dispatcher.conformance.kit import Cause
from tests.ec2_bed.bed import Ec2Bed
from tests.ec2_bed.faults import ANY_ACTION, Fault, Kind

_LISTING: Final = "DescribeInstances"
_STANDING: Final[Mapping[Cause, Fault]] = {
    Cause.THROTTLED: Fault(
        kind=Kind.ERROR, action=ANY_ACTION, code="RequestLimitExceeded", status=503
    ),
    Cause.QUOTA_OF_GROUP: Fault(kind=Kind.ERROR, code="VcpuLimitExceeded"),
    Cause.QUOTA_OF_ACCOUNT: Fault(kind=Kind.ERROR, code="VolumeLimitExceeded"),
    Cause.SHORT_OF_TYPE: Fault(kind=Kind.ERROR, code="InsufficientInstanceCapacity", status=500),
    Cause.BAD_CREDENTIALS: Fault(
        kind=Kind.ERROR, action=ANY_ACTION, code="AuthFailure", status=401
    ),
    Cause.SERVER_ERROR: Fault(kind=Kind.ERROR, action=ANY_ACTION, code="InternalError", status=500),
    Cause.CUT_LISTING: Fault(kind=Kind.CUT, action=_LISTING),
    Cause.DUPLICATES: Fault(kind=Kind.TWICE, action=_LISTING),
}


class KitBed:
    """What the kit knows of a bed; EC2 has no error that says it is short of everything."""

    causes = frozenset(_STANDING) | {Cause.LOST_ANSWER}

    def __init__(self, bed: Ec2Bed) -> None:
        self._bed = bed

    def causing(self, cause: Cause) -> AbstractContextManager[None]:
        """Make trouble as long as the context lasts; of a lost answer there is one."""
        if cause is Cause.LOST_ANSWER:
            self._bed.plan.order(Fault(kind=Kind.LOST_ANSWER))
            return nullcontext()
        return self._bed.plan.standing(_STANDING[cause])

    def make_foreign(self) -> str:
        """Run an instance of somebody else's, and return its id."""
        answer = self._bed.account.run_instances(
            ImageId=self._bed.image, InstanceType="m5.large", MinCount=1, MaxCount=1
        )
        return str(answer["Instances"][0]["InstanceId"])

    def is_running(self, instance_id: str) -> bool:
        """Return whether moto has the instance, and has not ended it."""
        return instance_id in self._bed.billed()

    def is_preemptible(self, instance_id: str) -> bool:
        """Return whether the instance was bought on the spot market."""
        return any(each.spot for each in self._bed.truth() if each.id == instance_id)

    def give_notice(self, instance_id: str, ends_at: str) -> None:
        """Have the metadata service tell the instance that it ends."""
        self._bed.metadata.give_notice(instance_id, ends_at)
