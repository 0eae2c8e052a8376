"""One sentence for each promise about elastic jobs, and for each thing that can happen to them."""

from __future__ import annotations

ELASTIC_PROMISES: dict[str, str] = {
    "what a job needs has its place before it starts": "whenever a member of an elastic job "
    "starts, each essential one has a place: it runs, has done its work, or has room kept for it",
    "what a job needs starts first": "no elastic member starts before all essential ones run",
    "what a job needs starts in its order": "no essential member starts before all of lower "
    "startup_order run",
    "rigid jobs begin with all they have": "the first member of a rigid job starts once all "
    "members have a place, but for those that users hold back",
    "a member knows its job": "an attempt finds its component, its number there, and the hosts of "
    "all components in its environment",
    "what succeeded runs again only if its job begins anew": "of a job that lost no essential "
    "member since, no attempt follows one that succeeded",
    "nothing of a job that is over starts": "no member starts once its job has failed, succeeded "
    "or is cancelled",
    "a job that is over ends all it has": "what runs of it then is told to end at once, and what "
    "waits has ended",
    "a job is over when what it needs is": "after a pass, a job is over of which an essential "
    "member failed, or all succeeded, by what is stored",
    "only essential members fail their jobs": "no elastic member is failed for good, however it "
    "ends",
    "an elastic job ends as what it needs does": "it has succeeded if all essential members have, "
    "and failed if one has, or was cancelled",
    "only what was lost fails for that": "a job fails for its losses once it has had as many as it "
    "may; what the cloud takes back, or what never ran, is none",
    "who comes first begins first": "without backfill, no job begins while another waits that the "
    "policy puts before it",
    "members are ended for a reason": "a member is told to end only by a user, for its time limit, "
    "with its job, for another's sake, or since its job has lost an essential one",
    "only flexible jobs give back": "no member of a rigid or malleable job makes way for another "
    "job",
    "what a job needs is never given back": "no essential member makes way for another job",
    "members make way only for what another job needs": "whoever makes way for a job does so while "
    "an essential member of it waits for that room, or begins at once in what is kept there for "
    "others",
    "nobody makes way who could stay": "who is told to make way for a job has no room any more "
    "beside all who stay on his instance, or have a place there by now, and no place among all",
    "nobody makes way where there is room": "nor does anybody for members that find room together "
    "on another instance, as far as more may have a place",
    "room is promised once": "after a pass, what is kept on an instance for jobs that do not queue "
    "is free there",
    "what has room begins": "a job that waits begins within 75 s where room for all it needs is "
    "free on one instance, if no other job may come before it",
    "what has room grows": "so does a job that runs get an elastic member that it lacks",
    "everybody has its own cpus": "no member may use less than it asked for, 15 s after the last "
    "change on its instance",
    "spare cpus are given once": "all members together may use no more than nobody has reserved",
    "spare cpus are shared evenly": "each gets the same of that, and nothing is left over",
}

ELASTIC_FAULTS: dict[str, str] = {
    "elastic": "how many elastic jobs are submitted, of any mode",
    "scaling": "share of these for whose elastic members instances are created",
    "lasting": "share of their components that want no preemptible instance",
    "faulty": "share of their attempts that exit with a code other than 0",
    "elastic_requests_every_s": "mean time between elastic jobs that are held, released, cancelled "
    "or get another priority, and members of theirs",
}
