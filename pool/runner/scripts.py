"""The supervisor as a shell script: no fork of Python, no new Python, one `sh` an attempt.

Descriptors: 5 tells that all output was collected, 6 and 7 are the pipes for it, 8 the
out-of-memory event (if any), 9 the attempt's lock. What users give (command, environment) is only
ever a positional parameter or the value of a variable, never part of a script. Variables named
`_ls_*` are the scripts' own.

The job runs in the foreground of the script, since a shell without job control starts background
jobs deaf to SIGINT and SIGQUIT. It writes down its own pid and start before it lets go of the lock.
The exit record is one write of a few bytes, which a reader sees whole or not at all (see
`Spool.recorded`), so it needs no `mv`, which would be one more process. It goes where room was
allocated before the start (`spool.allocate`), and is repeated, under the lock, should it fail all
the same. A fifo that is opened for both directions never blocks the one who opens it. What is in a
pipe is gone with the last who has it open, so the script stays until that was collected (see
`collector`).
"""

from __future__ import annotations

import shlex

from longshore.pool.runner.images import template

# For one call of an engine's client, in seconds, as `timeout` takes them.
ANSWER_LIMIT_S = b"20"
SIGNAL_LIMIT_S = b"10"

RECORD = """
_ls_record() {
  read -r _ls_stat </proc/self/stat
  _ls_pid=${_ls_stat%% *}
  set -- ${_ls_stat##*) }
  # A later record covers an earlier one, whatever their lengths.
  echo "$_ls_pid ${20} $$                    " 1<>"$_ls_spool/job"
}
_ls_finish() {
  [ -z "$_ls_given" ] || rm -rf -- "$_ls_given"
  until echo "$*" 1<>"$_ls_spool/exit" || [ ! -d "$_ls_spool" ]; do sleep 1; done
  [ ! -p "$_ls_fifo" ] || echo "$_ls_id" 1<>"$_ls_fifo"
  [ ! -d "$_ls_spool" ] || read -r _ls_collected <&5
}
"""

# A shell drops, changes or reads some variables while it prepares the exec, and others than dash
# add some of their own (who counts `SHLVL` does). Where one of these would matter, Python takes the
# last step instead, which costs ten milliseconds. It drops privileges by itself: what the user
# named is in no environment of root's, and root's Python may be out of the user's reach.
STEP = """
import _signal, posix, pwd, sys
told = posix.environ
for number in _signal.SIGPIPE, _signal.SIGXFSZ:
    _signal.signal(number, _signal.SIG_DFL)  # Python ignores it, and so would the program
try:
    uid, gid = int(told[b"_ls_uid"]), int(told[b"_ls_gid"])
    if uid >= 0:
        posix.initgroups(pwd.getpwuid(uid).pw_name, gid)
        posix.setresgid(gid, gid, gid)
        posix.setresuid(uid, uid, uid)
    posix.chdir(told[b"_ls_work"])
    pairs = [told[b"_ls_e%d" % index].split(b"=", 1) for index in range(int(told[b"_ls_count"]))]
    posix.execve(sys.argv[1], sys.argv[1:], {b"PWD": told[b"_ls_work"], **dict(pairs)})
except (OSError, KeyError) as error:
    sys.stderr.write(f"{error}\\n")
    sys.exit(126)
"""
TAKE_STEP = """
  if [ -z "$_ls_plain" ] || [ -n "${SHLVL+x}" ]; then
    exec "$_ls_python" -I -S -c "$_ls_step" "$@"
  fi
"""

# `export NAME=value` by reference keeps every byte of the value, and shows it to nobody: as an
# argument of `env` it would lie open in /proc for all users.
ENTER = """
cd -- "$_ls_work" || exit 126
while [ "$_ls_count" -gt 0 ]; do
  _ls_count=$((_ls_count - 1))
  eval "export \\"\\$_ls_e$_ls_count\\""; unset _ls_e$_ls_count
done
unset _ls_spool _ls_fifo _ls_id _ls_work _ls_count _ls_plain _ls_python _ls_step _ls_uid _ls_gid
unset _ls_enter _ls_stat _ls_pid _ls_group _ls_join _ls_mark _ls_given OLDPWD
exec "$@"
"""

OOM_SCORE = 500
"""What jobs have as `oom_score_adj`: when the machine is out of memory the kernel ends one of them,
and neither the runner nor a supervisor, which have the login's 0. More than that is left alone."""

# What the job left in its control group (`_ls_group`, if any) is killed before the end is told, but
# for this script itself. Whatever is born faster than that is ended by the runner.
#
# After TERM (`grace` is filled, see `Spool.begin_grace`) that waits until the grace is over, for as
# long as anything is left: a wrapper that TERM ended is no reason to kill what it had started while
# that saves its work. This script waits, and not the runner, since it is the one that is always
# there. The end that it tells of is the program's own; the time of `program-ended` is that end's.
# Without a group, this script inherits whatever is orphaned below it (see `spawning`): all that the
# job has started is below it, and nothing is left when it has no child, zombies not counted. Where
# the kernel lets nobody inherit, what moved to a session of its own is found by its mark, as far as
# grep can.
PROCESS = (
    RECORD
    + """
_ls_end_rest() {
  _ls_passes=1000
  while [ "$_ls_passes" -gt 0 ]; do
    _ls_passes=$((_ls_passes - 1)) _ls_more=
    while read -r _ls_pid; do
      [ "$_ls_pid" = "$$" ] || { _ls_more=1; kill -s KILL "$_ls_pid"; }
    done <"$_ls_group/cgroup.procs"
    [ -n "$_ls_more" ] || return
  done
}
_ls_marked() {
  set -- $(grep -lszxF "LONGSHORE_ATTEMPT_ID=$_ls_id" /proc/[0-9]*/environ)
  [ -z "$1" ] || grep -lszxF "LONGSHORE_SPOOL=$_ls_mark" "$@"
}
_ls_look_below() {
  _ls_below= _ls_one=
  if [ -e "/proc/$$/task/$$/children" ]; then
    read -r _ls_one <"/proc/$$/task/$$/children"
    set -- $_ls_one
  else
    set -- /proc/[0-9]*
  fi
  for _ls_one in "$@"; do
    _ls_one=${_ls_one##*/}
    read -r _ls_stat <"/proc/$_ls_one/stat" || continue
    set -- ${_ls_stat##*) }
    case $1.$2 in [!XZ].$$) _ls_below="$_ls_below $_ls_one" ;; esac
  done
  [ -n "$_ls_below" ]
}
_ls_end_below() {
  _ls_passes=300
  while _ls_look_below && [ "$_ls_passes" -gt 0 ]; do
    _ls_passes=$((_ls_passes - 1))
    kill -s KILL $_ls_below
    sleep 0.01 || sleep 1
  done
}
_ls_is_left() {
  if [ -n "$_ls_group" ]; then
    while read -r _ls_one; do
      [ "$_ls_one" = "$$" ] || return 0
    done <"$_ls_group/cgroup.procs"
    return 1
  fi
  ! _ls_look_below || return 0
  for _ls_one in /proc/[0-9]*/stat; do
    read -r _ls_stat <"$_ls_one" || continue
    set -- ${_ls_stat##*) }
    case $1.$3.$4 in [!XZ].$_ls_pid.*|[!XZ].*.$_ls_pid) return 0 ;; esac
  done
  [ -n "$(_ls_marked)" ]
}
_ls_await_rest() {
  true >"$_ls_spool/program-ended"
  while _ls_is_left && read -r _ls_until <"$_ls_spool/grace"; do
    read -r _ls_now _ </proc/uptime
    [ "${_ls_now%.*}${_ls_now#*.}" -lt "$_ls_until" ] || break
    sleep 0.05 || sleep 1
  done
  [ -z "$_ls_group" ] || return
  for _ls_one in $(_ls_marked); do
    _ls_one=${_ls_one#/proc/}
    kill -s KILL "${_ls_one%/environ}"
  done
}
(
  _ls_record
  read -r _ls_score </proc/self/oom_score_adj
  [ "$_ls_score" -ge @OOM@ ] || echo @OOM@ >/proc/self/oom_score_adj
  exec >&6 2>&7 </dev/null 5<&- 6>&- 7>&- 9>&-
  if [ -n "$_ls_join" ]; then
    echo 0 >"$_ls_join" || { : >"$_ls_spool/apart"; exit 126; }
  fi
  @LAUNCH@
)
_ls_code=$? _ls_state=ran
# Without its working directory or its control group the program was never reached.
[ "$_ls_code" != 126 ] || { [ -d "$_ls_work" ] && [ ! -e "$_ls_spool/apart" ]; } || _ls_state=never
if read -r _ls_pid _ls_start <"$_ls_spool/job"; then
  [ ! -s "$_ls_spool/grace" ] || _ls_await_rest
  kill -s KILL -- "-$_ls_pid"
fi
if [ -n "$_ls_group" ]; then _ls_end_rest; else _ls_end_below; fi
_ls_finish "$_ls_code" 0 "$_ls_state"
"""
)

# With `run_as`, privileges are dropped before anything that the user named is in the environment:
# LD_PRELOAD must not be loaded by a program of root's.
LAUNCH_AS = """
  unset _ls_spool _ls_fifo _ls_id _ls_group _ls_join _ls_mark _ls_given
  exec @DROP@ /bin/sh -c "$_ls_enter" sh "$@"
"""

# A client of the engine's gets `_ls_limit` seconds: an engine may hang for ever. Nothing of an
# attempt's control group (`_ls_group`) runs any more when its end is told: another try may follow.
TOOLS = """
_ls_engine() { timeout -s KILL "$_ls_limit" @ENGINE@ "$@" 5<&- 6>&- 7>&- 8<&- 9>&-; }
_ls_kill_below() {
  for _ls_dir in "$1"/*/; do [ ! -d "$_ls_dir" ] || _ls_kill_below "${_ls_dir%/}"; done
  while read -r _ls_pid; do
    kill -s KILL "$_ls_pid"
    read -r _ls_stat <"/proc/$_ls_pid/stat" || continue
    case $_ls_stat in *") Z "*|*") X "*) ;; *) _ls_some=1 ;; esac
  done <"$1/cgroup.procs"
}
_ls_end_group() {
  [ ! -e "$_ls_group/cgroup.kill" ] || echo 1 >"$_ls_group/cgroup.kill"
  while _ls_some=; _ls_kill_below "$_ls_group"; [ -n "$_ls_some" ]; do sleep 0.1; done
}
"""

# The status of a client says nothing certain: asked to end before it has started anything, Podman's
# ends with 0. What counts is what the engine knows of the container, by the id that it left in
# `cid` before the start; without one there was none. An engine that does not answer is asked again,
# as long as anything may run or nobody has told the attempt to end.
#
# An image that is not there is fetched before: see `images`. The signals go to its client
# then (`job`), and to nobody, for a moment, between its end and the start. A registry may hang, and
# who waits for it holds an instance: the client gets `_ls_pull_limit` seconds, by `timeout`, which
# leads a group of its own.
#
# Podman learns of an end from conmon alone. If that is gone and the container is still said to run,
# its exit is lost, and what is left of it goes.
ENGINE = (
    RECORD
    + TOOLS
    + """
_ls_inspect() {
  _ls_seen=$(_ls_engine image inspect --format '@IMAGE@' "$_ls_image") && [ -n "$_ls_seen" ]
}
_ls_tell() { [ ! -p "$_ls_news" ] || echo "$_ls_id" 1<>"$_ls_news"; }
_ls_pull_image() {
  true >"$_ls_spool/pulling"
  _ls_tell
  read -r _ls_began _ </proc/uptime
  (
    _ls_record
    exec >/dev/null 2>&7 </dev/null 5<&- 6>&- 7>&- 8<&- 9>&-
    [ -z "$_ls_auth" ] || export DOCKER_CONFIG="$_ls_auth"
    exec timeout -s KILL "$_ls_pull_limit" @ENGINE@ pull --quiet @PULL@ @AUTH@ "$_ls_image"
  )
  _ls_client=$?
  read -r _ls_now _ </proc/uptime
  echo "0 0                              " 1<>"$_ls_spool/job"
  if [ "$_ls_client" = 0 ]; then
    _ls_inspect
  elif [ "$_ls_pull" = newer ] && _ls_inspect; then
    # A registry that does not answer has nothing newer.
    _ls_client=0
  elif [ "$((${_ls_now%.*} - ${_ls_began%.*}))" -ge "$_ls_pull_limit" ]; then
    echo "$_ls_pull_limit" >"$_ls_spool/unpulled"
  fi
}
_ls_run() {
(
  _ls_record
  exec >&6 2>&7 </dev/null 5<&- 6>&- 7>&- 8<&- 9>&-
  for _ls_secret in $_ls_secrets; do
    timeout -s KILL 60 \\
      @ENGINE@ secret create "$_ls_secret" "$_ls_spool/$_ls_secret" >/dev/null || exit 125
  done
  unset _ls_stat _ls_pid _ls_secret _ls_seen _ls_image
  exec @ENGINE@ "$@"
)
}
_ls_client=0 _ls_seen=
_ls_inspect
case $?.$_ls_pull in
  137.*|*.never) ;;
  0.missing) ;;
  *) _ls_pull_image ;;
esac
_ls_stop=${_ls_seen#*:?} _ls_stop=${_ls_stop%%[!A-Z0-9+-]*}
[ "${#_ls_seen}" -lt 65000 ] || _ls_seen=
printf '%s %s\\n' "$_ls_asked" "${_ls_seen:-null}" >"$_ls_spool/image"
rm -f "$_ls_spool/pulling"
[ -z "$_ls_auth" ] || rm -rf -- "$_ls_auth"
_ls_tell
if [ "$_ls_client" = 0 ] && [ ! -e "$_ls_spool/killed" ]; then
  _ls_run "$@"
  _ls_client=$?
fi
_ls_cid= _ls_code= _ls_state=never _ls_mute=
_ls_conmon_lives() {
  read -r _ls_stat <"/proc/$1/stat" || return
  case $_ls_stat in "$1 (conmon) "[ZX]*) return 1 ;; "$1 (conmon) "*) ;; *) return 1 ;; esac
}
_ls_wait() {
  if [ "$1" = - ]; then @ENGINE@ wait "$_ls_cid" 5<&- 6>&- 7>&- 8<&- 9>&-; return; fi
  while _ls_conmon_lives "$1"; do sleep 0.1; done
}
_ls_forward() {
  [ -e "$_ls_spool/killed" ] || return
  if [ "$_ls_client" = 137 ]; then set -- KILL; else set -- "${_ls_stop:-TERM}"; fi
  _ls_engine kill --signal "$1" "$_ls_cid"
}
_ls_look() {
  _ls_seen=$(_ls_engine container inspect --format '@STATE@' "$_ls_cid") || return
  [ -n "$_ls_seen" ]
}
_ls_judge() {
  _ls_look
  case $? in
    0) set -- $_ls_seen ;;
    137) return 1 ;;
    *)
      _ls_seen=$(_ls_engine ps -a -q --filter "id=$_ls_cid") && [ -z "$_ls_seen" ] || return
      _ls_state=lost _ls_why="its container was removed by somebody else"
      return 0 ;;
  esac
  case $1 in
    running|paused|stopping|restarting)
      _ls_state=lost _ls_why="the engine does not tell how its container ended"
      _ls_forward
      _ls_wait "$3"
      _ls_look || return
      _ls_conmon=$3
      set -- $_ls_seen
      case $1 in running|paused|stopping|restarting)
        [ "$_ls_conmon" != - ] || return
        _ls_why="its conmon ended before the container did"
        return 0 ;;
      esac ;;
  esac
  # When it was started stays unknown to Podman where its client was ended right after that.
  case $_ls_state$4 in never0001-*) return 0 ;; esac
  if [ "$2" -ge 0 ]; then _ls_code=$2 _ls_state=ran; return 0; fi
  _ls_state=lost _ls_why="the engine does not know how its container ended"
}

[ ! -e "$_ls_spool/cid" ] || read -r _ls_cid <"$_ls_spool/cid"
while [ -n "$_ls_cid" ] && ! _ls_judge; do
  if [ -e "$_ls_spool/killed" ]; then
    _ls_some=; _ls_kill_below "$_ls_group"; [ -n "$_ls_some" ] || { _ls_mute=1; break; }
  fi
  sleep 1
done
_ls_end_group
# From an engine that does not answer it is removed after its release.
if [ "$_ls_state" != ran ] && [ -z "$_ls_mute" ]; then
  _ls_engine rm -f -v "$_ls_name"
  _ls_end_group
fi
case $_ls_state in
  never) _ls_finish "$_ls_client" 0 never ;;
  lost)
    echo "$_ls_why" >"$_ls_spool/why"
    _ls_finish lost ;;
  ran)
    _ls_oom=0
    if [ "$_ls_code" = 0 ]; then
      :
    elif [ -n "$_ls_events" ]; then
      while read -r _ls_key _ls_count; do
        [ "$_ls_key" != oom_kill ] || [ "$_ls_count" = 0 ] || _ls_oom=1
      done <"$_ls_events"
    elif [ -n "$_ls_watch" ]; then
      dd bs=8 count=1 <&8 >/dev/null && _ls_oom=1
    fi
    _ls_finish "$_ls_code" "$_ls_oom" ran ;;
esac
"""
)

# Each ends what the one before could not: the container by its name, then the engine's client, with
# its group where it leads one. That knows nothing of the signal that the image wants for TERM.
KILL = """
timeout -s KILL "$_ls_limit" @ENGINE@ kill --signal "$1" "$2" 9>&- ||
  kill -s "$4" -- "-$3" || kill -s "$4" "$3"
"""

# Buries an attempt whose supervisor is gone: nothing of it may run on when it is called lost.
BURY = (
    RECORD
    + TOOLS
    + """
_ls_engine rm -f -v "$_ls_name"
_ls_end_group
_ls_finish lost
"""
)

# Removes what is left of a released attempt, and then the directory that tells of it (`_ls_left`).
# What is gone already is no failure: an earlier try may have got as far.
RELEASE = (
    TOOLS
    + """
if ! _ls_engine rm -f -v "$_ls_name"; then
  _ls_seen=$(_ls_engine ps -a -q --filter "name=^$_ls_name\\$") && [ -z "$_ls_seen" ] || exit 1
fi
if [ -n "$_ls_secrets" ] && ! _ls_engine secret rm $_ls_secrets; then
  _ls_seen=$(_ls_engine secret ls --format '{{.Name}}') || exit 1
  for _ls_key in $_ls_seen; do
    case " $_ls_secrets " in *" $_ls_key "*) exit 1 ;; esac
  done
fi
# What the engine made below a group it may have left there, if it did not see the end itself.
_ls_remove_group() {
  for _ls_dir in "$1"/*/; do [ ! -d "$_ls_dir" ] || _ls_remove_group "${_ls_dir%/}"; done
  rmdir "$1"
}
for _ls_group in "$@"; do
  [ ! -d "$_ls_group" ] || _ls_remove_group "$_ls_group" || exit 1
done
rm -rf -- "$_ls_left"
"""
)

# Runs the power-off command. Its output is bounded, by something that goes on reading: a command
# that is stopped for what it says would be one that fails. Descriptor 4 brings its exit status.
POWER_OFF = """
umask 077
_ls_tell() {
  echo "try $_ls_try at $(date -u)"
  _ls_code=$({ { sh -c "$_ls_command" 2>&1 3>&- 4>&-; echo "$?" >&4; } |
    { head -c 65536 >&3; cat >/dev/null; } 4>&-; } 4>&1)
  echo "exit status $_ls_code"
}
rm -f "$_ls_log"
true >"$_ls_log" || _ls_log=/dev/null
{ _ls_tell 3>&1; } >"$_ls_log"
"""


AUTH_FILE = '${_ls_auth:+--authfile "$_ls_auth/config.json"}'


def for_engine(script: str, prefix: tuple[str, ...]) -> str:
    """Return a script with the administrator's engine command (never a user's words) filled in."""
    return script.replace("@ENGINE@", " ".join(shlex.quote(word) for word in prefix))


def for_supervisor(prefix: tuple[str, ...], engine: str, pull_options: list[str]) -> str:
    """Return the supervisor of a container; `pull_options` are for the fetching of its image."""
    monitor = "{{.State.ConmonPid}}" if engine == "podman" else "-"
    words = ("{{.State.Status}}", "{{.State.ExitCode}}", monitor, "{{.State.StartedAt}}")
    script = ENGINE.replace("@STATE@", " ".join(words)).replace("@IMAGE@", template(engine))
    script = script.replace("@PULL@", " ".join(map(shlex.quote, pull_options)))
    # Docker is told by its variable; of several of Podman's options, the last one counts.
    script = script.replace("@AUTH@", AUTH_FILE if engine == "podman" else "")
    return for_engine(script, prefix)


def for_process(drop: tuple[str, ...]) -> str:
    """Return the process supervisor; `drop` is the command that drops privileges, () for none."""
    words = " ".join(shlex.quote(word) for word in drop)
    launch = LAUNCH_AS.replace("@DROP@", words) if drop else ENTER
    script = PROCESS.replace("@OOM@", str(OOM_SCORE))
    return script.replace("@LAUNCH@", TAKE_STEP + launch)
