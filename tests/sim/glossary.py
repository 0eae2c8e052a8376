"""One sentence for each promise that is checked and for each thing that can go wrong.

`tests/sim/reliability.py` makes the tables of `docs/reliability.md` of them; a test holds that
nothing is missing and nothing is left over.
"""

from __future__ import annotations

from tests.sim.glossary_elastic import ELASTIC_FAULTS, ELASTIC_PROMISES

PROMISES: dict[str, str] = {
    # ---- containers and attempts
    "no acknowledged container is lost": "what was acknowledged is in the store at the end",
    "everything ends": "within two hours without faults every container is final, every instance "
    "gone, every launch forgotten",
    "every attempt ends": "at the end each attempt has an outcome",
    "an attempt ends once": "an outcome that is stored never changes",
    "outcomes are true": "what is stored as succeeded or failed is how it really ended",
    "costs and times are sane": "nothing ends before it began, and no cost is negative",
    "no exit is lost": "an attempt whose exit is recorded is never called lost",
    "an exit is kept until it is committed": "the runner is told to forget an exit only once its "
    "outcome is stored",
    "a log is kept until it is complete": "the runner is told to forget an attempt only once its "
    "log is stored",
    "no container runs twice at once": "no process starts while another of its container runs, "
    "anywhere",
    "what has ended never runs again": "no process starts for a container that is final",
    "what succeeded never runs again": "no attempt follows one that succeeded",
    "no attempt runs after its end was told": "no process starts for an attempt with an outcome",
    "no attempt is given up while it runs": "no outcome is stored while the process runs",
    "no instance is given more than it has": "what runs on an instance fits its type, and its "
    "machine where that has less",
    "types are taken for what their largest has": "what is expected of a type is what the largest "
    "of its machines has that told, and for an hour after the last of them",
    "what is too small is not bought again": "nothing is created that would hold nobody who waits "
    "if it is as small as the largest of its type",
    "journal before kill": "an attempt is told to end only once that is stored, and why",
    "signals have their time": "no signal is repeated before signal_interval",
    "journal before start": "a process starts only once its attempt is stored, and only there",
    "what is held back does not start": "nothing of priority 0 starts",
    "no lower one starts before a higher": "nothing starts while one of the same request class "
    "waits with a higher priority, but where that was lost",
    "what is cancelled does not start": "nothing starts that a user has cancelled",
    "what is to end is ended": "an attempt is being ended when its container is cancelled or held "
    "back",
    "what is lost too often fails": "nothing starts that was lost max_lost_attempts times; what an "
    "instance loses that is there counts once for it, and may be 20",
    "one instance fails nobody": "what was lost fails only when it was as often as it may be, once "
    "for each instance that is there",
    "what is taken back too often runs on what is not": "nothing starts on a preemptible type that "
    "the cloud interrupted max_reclaimed_attempts times, if another type would do",
    "who has no preemptible instance for long gets another": "no class waits for preemptible types "
    "that could not be had for preemptible_patience_s, if another type would do",
    "what may not be tried again is not": "nothing that ran and was lost starts again where a loss "
    "is final",
    "what is refused for its own fault is not tried again": "nothing starts that a runner refused "
    "for a fault of the request",
    "a start without an answer is looked for": "a probe is due where nobody knows whether an "
    "attempt started",
    "no log is awaited that cannot come": "a log comes while there is a session, or is given up",
    # ---- ending attempts
    "TERM comes before KILL": "KILL comes as long after the first TERM as its container asks, else "
    "term_timeout_s, not before",
    "KILL follows TERM": "TERM is not repeated for longer than that",
    "the runner knows when KILL is due": "each TERM says how much of the grace is left",
    "signals go on": "while an attempt that is to end runs and can be reached, a signal is due",
    "what has ended for good is left alone": "no signal goes to an attempt that was released: its "
    "exit is journalled, and its log complete",
    "signals go over a session": "no signal is sent where there is no session",
    # ---- jobs
    "what is waited for has ended": "nothing starts before all it waits for has ended as it must, "
    "by what is stored",
    "nobody waits for what has ended": "who waits for others waits for one whose end is not stored",
    "who cannot start is cancelled": "who waits for what did not succeed is cancelled",
    "who can start is not cancelled": "nobody is cancelled but by a user, or since what it waits "
    "for did not succeed",
    "no more of an array than may": "no more elements have begun and not ended than max_running",
    "an array uses its room": "no element waits for its turn while fewer have theirs",
    "an element knows which it is": "an attempt finds its job, task, index and number in its "
    "environment",
    "a held job starts nothing": "nothing of a held job starts",
    "a job is held as was asked": "those of a held job, and no others, are held back by it",
    "nothing starts before its time": "no first attempt starts before not_before",
    "who may begin is let": "who may begin is not held back for that a second later",
    "a time limit is not early": "nothing is ended for its time limit before it ran for that",
    "a time limit is kept": "what has run for its time limit is being ended a second later",
    "who ran for too long has failed for that": "what was ended for its time limit, and nothing "
    "else, has failed for that",
    "a job's tallies are true": "whenever all is stored, a job counts its containers as the store "
    "has them",
    "a job ends once": "a job that has ended in the store is never changed",
    "a job ends with its last container": "whenever all is stored, a job that is not final has "
    "containers that are not",
    "a job ends as its containers do": "its final state, exit code and tallies are what its "
    "containers make them",
    # ---- plans
    "a plan changes nothing": "a digest of all that the engine consists of is the same before and "
    "after each part of a plan, and no name is used up and no dice are thrown for it",
    "a trial is by itself": "of what can change nothing belongs to the engine and to the copy on "
    "which a plan is tried",
    "the pass of a plan is made": "the pass that is tried for a plan does not fail",
    # ---- system and sysbatch jobs
    "one attempt on each instance": "of a per-instance job no two processes run on an instance at "
    "once, whichever process of the dispatcher started them",
    "one container for each instance": "such a job has one unfinished container for each instance",
    "a per-instance attempt runs where it belongs": "it starts on the instance that its container "
    "is for, which its job matches, and is told which that is",
    "a start says who may be left behind": "whoever belongs to an instance keeps none running that "
    "no dispatcher contacts, and whoever else runs there does",
    "every instance has what it should": "what is ready, matches, has room and nothing to wait for "
    "has its attempt two seconds later, at the latest revision; where room is short nothing is "
    "said",
    "an instance gets the latest revision": "what starts is what its job's latest revision says",
    "what its job does not ask for is not started": "nothing starts of a job that is cancelled, "
    "held back, or unknown",
    "nothing new on what is held or drains": "unless the job says so; and on what drains only as "
    "long as batch work is there, or the job ignores that",
    "who joins late is left alone where the job says so": "without late_joiners nothing starts on "
    "what came after the revision",
    "what ran to its end once does not run again": "of a sysbatch job nothing starts where it "
    "succeeded, or failed for good, at this revision, after a crash neither",
    "updates come in rounds": "within any stagger no more destructive updates begin in one process "
    "than max_parallel",
    "updates come in rounds after a restart, too": "nor counting those of earlier processes; which "
    "forget what they did not commit, containers that have ended, and how the clock was set",
    "per-instance work never queues": "no container of such a job waits in the queue, so that no "
    "instance is created for it",
    "nothing starts beside what nobody wants": "such a job gets no attempt on an instance while a "
    "process is being ended there that no container wants",
    "nothing starts beside what another store runs": "an instance gets nothing new while it runs "
    "what another store has started: nobody knows what room that takes",
    "only an admin ends what another store has started": "a process that is not known here, "
    "and that another store may know, is signalled only once an admin wants it ended",
    "room that is promised is not given away": "whoever starts leaves the room that is kept for "
    "others, and what others make way for goes to the job that they were told of",
    "who matters least makes way first": "each of those who make way is needed, and nobody of "
    "lower priority would do instead",
    "only who matters much less makes way": "who is evicted for such a job is 100 points of "
    "priority below it at least",
    "only who may evicts": "nobody makes way for jobs that may not evict, by the settings",
    "nobody makes way for what is held back": "nobody is evicted for a job, or a container of one, "
    "that a user holds back",
    "who makes way knows for whom": "an evicted attempt is preempted, and names the job",
    "who makes way waits again": "its container waits for room again, and has not failed",
    "batch work leaves first": "where an instance drains, what belongs to it is told to end only "
    "once no batch work is there",
    "who ignores a drain is left alone": "with ignore_system nothing is told to end since its "
    "instance drains",
    "nothing is updated on what is held": "nothing ends for a revision on a held instance, unless "
    "its job says so",
    "who is updated can start again": "nothing ends for a revision where its successor could not "
    "start, or has no room",
    "nobody waits for an instance that is gone": "a container that is for an instance ends two "
    "seconds after that is gone",
    "residents are told of the end": "what belongs to an instance that can be reached got TERM "
    "before it is drained or idled out",
    "residents have their time": "and its grace, term_timeout_s at most, before the destroy",
    "a job that every instance refuses ends": "no sysbatch job goes on each of whose starts was "
    "refused for a fault of the request, and says nothing",
    "no instance waits for its residents for ever": "the destroy comes term_timeout_s later, or "
    "sooner",
    # ---- elastic jobs
    **ELASTIC_PROMISES,
    # ---- where work goes
    "nothing starts before the boot probe has passed": "what a boot sets up is proven before "
    "anything starts in it, also when an instance has booted anew",
    "an instance that runs nothing takes few": "an instance that ends at once what starts there "
    "is given three, and what is under way beside them, and none more than three times, until its "
    "engine is tried",
    "a trial has its verdict": "an instance that is on trial has it by its second answer to a "
    "probe: the first may have been on its way before; and while its session lives a probe is due",
    "what was lost is tried elsewhere first": "nothing starts on an instance that has lost it "
    "while another could hold it or be created for it, unless that was 10 minutes ago",
    "only ready instances get work": "work goes to instances that are up, wanted, proven and not "
    "broken",
    "what is taken back gets no work": "no start goes where the cloud has said that it takes the "
    "instance back",
    "a forged word drains nobody": "who says so of a type that is not preemptible is not believed",
    "containers run only where they may": "what must not run on preemptible instances does not",
    "exclusive instances run one container": "so, under exclusive placement",
    "max_containers_per_instance": "no instance is given more containers",
    "none runs on what is too dear": "batch work runs on nothing dearer than max_price_factor "
    "times the cheapest type on which daemons leave it room",
    "nothing is bought that is too dear": "no instance is created that is dearer than that for all "
    "who wait",
    "no lower one takes the place of a higher": "nothing starts where one of higher priority would "
    "fit",
    "nothing below a quota gets a place": "nothing overtakes one that waits for a quota, but on "
    "what came for lower ones while something else makes way",
    "no idle instance uses up a quota": "what is idle and of no use for those who wait for a quota "
    "makes way for them",
    "no more is created than is waited for": "no more instances of a type come than containers "
    "wait for",
    "claims are journalled": "whoever has a claim is locked in the store; of those who are to go "
    "to an instance that a quota may refuse, the first",
    "at a quota one more than is known is tried": "at a quota no more instances are created than "
    "are known to be allowed, and one to try beside nothing else",
    "no more than is known is tried during a hold": "and that one only when the hold of the "
    "quota is over, or where the number of instances or that of cpus would allow it",
    "supervisors leave room at a quota": "supervisors do not take all that a quota allows",
    "nobody waits for what may never be allowed": "who wants what a quota refused though none was "
    "there keeps nobody waiting",
    "nobody is locked for what may never be allowed": "and is unlocked meanwhile",
    "nobody has two places": "after a pass, whoever has a claim waits: nobody started as well",
    "claims are given up": "whoever is locked in the store has a claim",
    "complaints are heard": "what an instance says of itself is known while there is a session",
    "no instance is judged too soon": "no instance is called broken before three starts in a row "
    "were refused",
    "nothing before the first listing": "nothing is created or started before the first listing",
    "overloaded instances rest": "what refused a start since it is overloaded gets none for a "
    "minute",
    "no more run at once than may": "neither more than max_containers, nor than overload allows",
    "supervisors have their share": "no more supervisors have a place than supervisor_fraction "
    "allows, and none waits for that while no other has one",
    "a limit for overload rises again": "what overload allows rises while it is reached and all "
    "is quiet",
    "nobody claims for more than wait": "a class has no more claims than containers that wait",
    # ---- restarts
    "what may not be restarted is not": "what failed starts again only as often as, and for what, "
    "its retries allow",
    "what may be restarted is": "what failed is not given up while its retries allow one more",
    "restarts wait for their time": "from the second restart on the delay has passed since the one "
    "before; whose instances are taken back one after the other waits longer each time",
    "what is taken back is no loss": "what was on an instance when the cloud said that it takes it "
    "back is preempted, not lost",
    "restarts come in time": "who is to be restarted is in the queue once that is due and its job "
    "is not held",
    # ---- creating
    "no more make way than are needed": "no more idle instances are shut down for a quota than "
    "containers wait for instances",
    "what has come for a lower one is spared": "an instance that has run nothing yet makes way "
    "only when it has been ready for as long as it took to boot",
    "what has come is used": "nobody waits behind others who fits on an instance that has run "
    "nothing yet and is not withheld",
    "what comes for a lower one stays its own": "what was claimed and comes is claimed, while "
    "somebody waits who needs it",
    "what is created is claimed": "somebody has a claim on whatever a pass creates",
    "journal before create": "a create call begins only once its launch is stored",
    "a launch is kept until its key is proven": "no launch is forgotten while its instance lives "
    "and has not proven its key",
    "max_instances": "instances, and creates that may have made one, are never more",
    "max_concurrent_creates": "create calls under way are never more",
    "no create during a hold": "no create in the scope of a hold, whatever its cause",
    "one trial create at a time": "after a hold one create at a time is tried in its scope",
    "holds are as long as they must be": "each hold of the pool begins and ends as an account of "
    "its own says",
    "one of use ends the trial": "after useless instances one create at a time is tried until one "
    "is of use, and no longer",
    "creates have their turn": "no create waits for a token for longer than a minute, nor while "
    "listings that were asked for later go",
    "deadlines are kept": "no deadline comes before it is due, none is put off by a later one, "
    "and none that is cleared comes",
    # ---- the cloud's other calls
    "the rate of cloud operations": "calls of the cloud's keep to max_cloud_ops_per_second",
    "the rate of probes": "probes keep to max_probes_per_second",
    "no listing during a hold": "a listing that failed is repeated when its time has come, not "
    "before",
    "no destroy during a hold": "after a rate limit no destroy and no tags before its end",
    "one listing at a time": "no listing begins while another is under way",
    "the listing goes on": "a listing begins every sync_interval_s, holds aside",
    "one probe at a time": "no probe of an instance begins while another is under way",
    "foreign instances are untouched": "nothing is done to another cluster's instances",
    "tags are what is wanted": "tags that differ from what is wanted are written again",
    # ---- keys
    "a proven key is kept": "who has proven a key is asked for that one, after a restart too",
    "a proven key makes the secret void": "no probe that knows the key carries the secret",
    # ---- ending instances
    "journal before destroy": "an instance that an admin killed is destroyed only once that is "
    "stored",
    "what was killed ends": "an instance of which it is stored that an admin killed it is being "
    "shut down, by whichever process knows of it",
    "a hold is as long as it is to be": "a hold that has an end, as the store tells, lasts until "
    "then unless an admin or the tags say otherwise, and no longer",
    "held instances are untouched": "an instance that an admin holds is neither destroyed nor "
    "powers itself off",
    "a held instance's lease is suspended": "the lease of a held instance that can be reached is "
    "off",
    "who is gone is not listed": "no instance is given up before a listing that should show it "
    "lacks it",
    "who is gone was asked for in vain": "unless the cloud said that it has ended, or it was to "
    "end with nothing on it, a probe found nobody at its address since listings lacked it",
    "who is too new for listings is not gone": "what no listing ever showed counts for "
    "boot_timeout_s",
    "who is gone was missing for long": "and three listings in a row lacked it, over gone_after_s",
    "what listings lack gets no work": "nothing is planned onto what listings lack",
    "who is reached serves its claims": (
        "what has a session and may get work is ready, whether a listing has shown it or not"
    ),
    "max_instances of what is there": "no more are created than max_instances, with all that is "
    "there by the truth and was created with an id",
    "no session with what is shut down": "no session stays with what is being destroyed",
    "no busy instance is idled out": "what is idled out, or unwanted, runs nothing",
    "drain waits for what runs": "what is drained runs nothing that may still end",
    "what is answered is stored": "who steers an instance is answered once the store tells "
    "a restart of it",
    "nobody waits for what is idled out": "no container has its place on what is idled out, and "
    "what is let run again is idled out only after a pass",
    "logs are waited for": "what is idled out or drained had probe_timeout_s for its logs",
    "what is stopped is ended": "what two listings in a row call stopped, and has no session, goes "
    "with the second, unless it is held",
    "no instance is ended for a word": "nothing is ended as stopped that has a session, or that "
    "fewer listings in a row call so",
    "no instance is ended early": "each had its idle, boot or probe timeout before it was ended "
    "for it",
    "no idle instance is kept": "what is idle for idle_timeout_s and not waited for goes",
    "no drained instance is kept": "what drains and is empty goes",
    "no silent instance is kept": "what is silent for probe_timeout_s goes",
    "no instance boots for ever": "what is not reached within boot_timeout_s goes",
    "a destroy is repeated": "a destroy is asked for again until the instance is gone",
    "what is destroyed stays so": "what is being destroyed gets no other state",
    "no instance outlives its use": "the last instance goes soon after the last container",
    "the lease spares what runs": "no instance that runs something but residents powers itself off",
    "every instance has a bill": "what is written of an instance has a record to reckon it by",
    "an instance is something at each instant": "what instances were follows without gap or "
    "overlap, until they are gone, also just after a crash",
    "an attempt has one place at a time": "what is written of an attempt does not overlap",
    "a share is a part": "an attempt keeps no more than its instance",
    "who works pays": "what an attempt keeps is booked to its container's project and user",
    "every instance is gone in the ledger": "no instance goes on in the ledger that is gone",
    "a launch that nobody has answered is in the ledger": "a create call without an answer has a "
    "bill of its own",
    "what a lost answer may cost is uncertain": "all that the machine of such a call is billed "
    "for is told as uncertain",
    "nothing is booked of what likely is not there": "a launch in doubt costs nothing",
    "a launch is in doubt for as long as its journal is kept": "the two end in one commit",
    "an unanswered launch is who bought it's": "its payer is the one that the journal names",
    "in the end nobody wonders what a launch made": "every doubt about a launch is settled",
    "the ledger knows how an attempt ended": "its time is useful or lost as its outcome says",
    "the ledger has what the cloud bills": "where the cloud tells its times, the seconds and the "
    "money of the lines are those of its own record, without a difference",
    "what a listing showed is known for good": "no more of an instance is uncertain than what "
    "came after the last listing that showed it",
    "what the ledger does not know is uncertain": "where it does not, they differ by no more than "
    "is shown as uncertain",
}
"""Each promise by its name, with what is looked at."""

FAULTS: dict[str, str] = {
    # ---- SimulatedFaults
    "create_errors": "share of create calls that fail",
    "destroy_errors": "share of destroy calls that fail",
    "listing_errors": "share of listings that fail",
    "tag_errors": "share of calls to set tags that fail",
    "rate_limits": "share of all calls of the cloud's that are throttled",
    "retry_after_s": "for up to how long the cloud says to wait then; in some runs, for hours",
    "impossible_types": "types whose creates fail always, without a cause",
    "lost_answers": "share of create calls that make an instance and answer that nobody knows",
    "false_alarms": "share of create calls that answer so and make none",
    "listing_lag_s": "for up to how long a new instance is missing from listings",
    "gone_lag_s": "for up to how long one that is gone is still listed",
    "tag_lag_s": "for up to how long listings tell old tags",
    "duplicates": "share of instances that a listing tells twice",
    "slow_boots": "share of instances that boot slowly",
    "slow_boot_factor": "how many times as long they take",
    "dead_boots": "share of instances that never boot",
    "vanishing": "share of instances that end by themselves",
    "reclaims": "share of preemptible instances that are taken back",
    "reclaim_notice_s": "how long before that they are told",
    "longest_life_s": "within what time instances end by themselves, or break",
    "without_runner": "share of instances that cannot run the runner",
    "breaking": "share of instances that say that they are broken, from some time on",
    # ---- HostFaults
    "drops_every_s": "mean time between sessions that are cut",
    "freezes_every_s": "mean time between instances that fall silent for a while",
    "longest_freeze_s": "for up to how long they are silent",
    "runner_crashes_every_s": "mean time between crashes of a runner, half with its supervisors",
    "rekeys_every_s": "mean time between instances that change their host key",
    "lost_logs": "share of attempts whose log does not end while the session lives",
    "slow_answers": "share of answers that come after their time limit",
    "repeats": "share of exits that are told twice",
    "refused": "share of starts that are refused, half for a fault of the request",
    "deaf": "share of processes that ignore TERM",
    "immortal": "share of processes that survive KILL too",
    "lost_supervisors": "share of processes whose supervisor is gone without an exit",
    "late_exits": "share of exits that are recorded a while after the process is gone",
    "swallowing": "share of instances that end at once what is started there, and run nothing",
    "unpulling": "share of instances that do so with what has an image, though their engine works",
    "smaller": "share of instances with fewer cpus, or less memory, than their type says; where "
    "there are some, each tells what it has",
    "sick_boots": "share of instances that never pass the boot probe",
    "broken_boots": "share of instances that say from the first that they are broken",
    "reboots_every_s": "mean time between reboots, after which an instance knows nothing",
    "deaths_every_s": "mean time between instances that fall silent for good",
    "strays_every_s": "mean time between processes that nobody asked for",
    "foreign_strays_every_s": "mean time between processes that another store has started",
    "flaps_every_s": "mean time between sessions that are cut many times in a row",
    "late_lists": "share of lists of what runs that arrive after later news",
    "drops_at_starts": "sessions that drop before the answer to a start comes",
    "late_orders": "share of orders to start that arrive after later probes",
    "slow_deaths": "share of processes that take a while to end after a signal",
    "refusing": "share of instances that refuse every start",
    "wrong_clocks": "share of instances whose clock is wrong",
    "overloaded": "share of starts that are refused since the instance is overloaded",
    "lost_limits": "share of words on limits of cpus that go down with their session",
    "partitions_every_s": "mean time between ways to an instance that are gone for up to a minute",
    "late_addresses": "whether addresses are known only after the boot",
    # ---- DispatcherFaults
    "crashes_every_s": "mean time between crashes of the dispatcher, between any two steps",
    "crashes_at_requests": "share of what users ask after whose commit the dispatcher dies",
    "longest_down_s": "for up to how long it is down then",
    "stalls_every_s": "mean time between times in which the store commits nothing",
    "longest_stall_s": "for up to how long it commits nothing",
    "refusals": "share of commits that the store refuses, which ends the process",
    "clock_steps_s": "by up to how much the wall clock is set, either way, at each start",
    "overloads_every_s": "mean time between stores that say, once or several times, that they are "
    "overloaded",
    # ---- Demand
    "containers": "how many lists of containers are submitted",
    "longest_list": "how many containers a list has at most",
    "longest_run_s": "for up to how long a container runs",
    "alike": "share of containers that ask for what the first of their list does",
    "failing": "share of containers that exit with a code other than 0",
    "cancels_every_s": "mean time between cancels",
    "priorities_every_s": "mean time between changes of a priority, to 0 among others",
    "behaviors_every_s": "mean time between admins who hold, drain or release an instance",
    "kills_every_s": "mean time between admins who end an instance",
    "retrying": "share of containers that are tried again when they fail",
    "supervising": "share of containers that submit others",
    "cpuless": "share of containers that ask for no cpus",
    "unnamed": "share of containers that leave what they need to the type",
    "imaged": "share of containers that have an image",
    "jobs": "how many jobs are submitted: arrays, chains, diamonds, arrays element by element",
    "longest_array": "how many elements an array has at most",
    "narrow": "share of arrays with a limit of how many run at once",
    "depending": "share of containers and tasks that wait for what was submitted before",
    "limited": "share of containers and tasks with a time limit",
    "lenient": "share of containers and tasks with a grace period of their own",
    "postponed": "share of containers and tasks with a time before which they do not start",
    "job_requests_every_s": "mean time between jobs that are held, released, cancelled or get "
    "another priority, and elements that are cancelled",
    "slow_look_ups": "share of submissions that look up what has ended long before they are stored",
    "per_instance": "how many jobs are submitted that run on every instance",
    "once": "share of these that run to their end once, and not for ever",
    "picky": "share of these that are for some types only",
    "restless": "share of attempts that exit though they were to run for ever",
    "restless_run_s": "how long they run at most",
    "refused_jobs": "share of revisions of these whose every start is refused for a fault of the "
    "request",
    "sharing": "share of these that ask for no cpus, and share one",
    "per_instance_requests_every_s": "mean time between such jobs that are revised, held, "
    "released, cancelled or get another priority",
    **ELASTIC_FAULTS,
    "timed_holds": "share of admins' holds of instances that have an end",
    "plans_every_s": "mean time between users who ask what a job would come to",
    # ---- SimOptions
    "limits_change_every_s": "mean time between changes of quota, capacity and shortages",
    "hanging_calls": "share of calls of the cloud's that take effect late and never answer",
    "driver_verifies_keys": "whether the driver vouches for host keys",
    "powers_off": "whether instances can power themselves off",
    "foreign": "how many instances of another cluster are in the account",
    "unfiltered_listings": "whether listings show them too",
    "unconfigured": "how many instances of ours have a type that is not configured",
    "left_over": "how many instances of ours no launch is known of",
    "flickers": "share of sights of new instances that a listing lacks, though an earlier one had "
    "them",
    "old_flickers_every_s": "mean time between instances of any age, or all of them, that listings "
    "lack from then on, and whose ids the cloud does not know",
    "longest_flicker_s": "for up to how long they do",
    "meddled_every_s": "mean time between tags that somebody else changes",
    "forbidden": "quota groups of which the account may have none",
    "forbidden_from_s": "from when on it may not",
    "allowed_after_s": "from when on it may again",
    "stops_every_s": "mean time between instances that somebody stops, half of them for good",
    "wrongly_stopped": "share of sights of instances of which a listing says so though they run",
    "restarts_in_calm": "whether the dispatcher is started anew when the faults end",
}
"""Each thing that can go wrong by the field that says how often, with what it is."""
