"""The supervisor as a shell script: no fork of Python, no new Python, one `sh` an attempt.

Descriptors: 5 tells that all output was collected, 6 and 7 are the pipes for it, 8 the
out-of-memory event (if any), 9 the attempt's lock. What users give (command, environment) is only
ever a positional parameter or the value of a variable, never part of a script. Variables named
`_ls_*` are the scripts' own.

The job runs in the foreground of the script, since a shell without job control starts background
jobs deaf to SIGINT and SIGQUIT. It writes down its own pid and start before it lets go of the lock.
The exit record is one write of a few bytes, which a reader sees whole or not at all (see
`Spool.ended`), so it needs no `mv`, which would be one more process. A fifo that is opened for both
directions never blocks the one who opens it. What is in a pipe is gone with the last who has it
open, so the script stays until that was collected (see `collector`).
"""

from __future__ import annotations

import shlex

RECORD = """
_ls_record() {
  read -r _ls_stat </proc/self/stat
  _ls_pid=${_ls_stat%% *}
  set -- ${_ls_stat##*) }
  echo "$_ls_pid ${20}" >"$_ls_spool/job"
}
_ls_finish() {
  echo "$1 $2 $3" >"$_ls_spool/exit"
  [ ! -p "$_ls_fifo" ] || echo "$_ls_id" 1<>"$_ls_fifo"
  read -r _ls_collected <&5
}
"""

# `export NAME=value` by reference keeps every byte of the value, and shows it to nobody: as an
# argument of `env` it would lie open in /proc for all users.
ENTER = """
cd -- "$_ls_work" || exit 126
while [ "$_ls_odd" -gt 0 ]; do
  _ls_odd=$((_ls_odd - 1))
  eval "set -- \\"\\$_ls_o$_ls_odd\\" \\"\\$@\\"; unset _ls_o$_ls_odd"
done
[ -z "$_ls_env" ] || set -- "$_ls_env" -- "$@"
while [ "$_ls_plain" -gt 0 ]; do
  _ls_plain=$((_ls_plain - 1))
  eval "export \\"\\$_ls_e$_ls_plain\\"; unset _ls_e$_ls_plain"
done
unset _ls_spool _ls_fifo _ls_id _ls_work _ls_odd _ls_plain _ls_env _ls_enter _ls_stat _ls_pid OLDPWD
unset _ls_group _ls_join _ls_mark
exec "$@"
"""

# What the job left in its control group (`_ls_group`, if any) is killed before the end is told, but
# for this script itself. Whatever is born faster than that is ended by the runner.
#
# After TERM (`grace` is there, see `Spool.begin_grace`) that waits until the grace is over, for as
# long as anything is left: a wrapper that TERM ended is no reason to kill what it had started while
# that saves its work. This script waits, and not the runner, since it is the one that is always
# there. The end that it tells of is the program's own; the time of `program-ended` is that end's.
# Without a group, what moved to a session of its own is found by its mark, as far as grep can.
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
_ls_is_left() {
  if [ -n "$_ls_group" ]; then
    while read -r _ls_one; do
      [ "$_ls_one" = "$$" ] || return 0
    done <"$_ls_group/cgroup.procs"
    return 1
  fi
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
  [ ! -e "$_ls_spool/grace" ] || _ls_await_rest
  kill -s KILL -- "-$_ls_pid"
fi
[ -z "$_ls_group" ] || _ls_end_rest
_ls_finish "$_ls_code" 0 "$_ls_state"
"""
)

# With `run_as`, privileges are dropped before anything that the user named is in the environment:
# LD_PRELOAD must not be loaded by a program of root's.
LAUNCH_AS = """
  unset _ls_spool _ls_fifo _ls_id _ls_group _ls_join _ls_mark
  exec @DROP@ /bin/sh -c "$_ls_enter" sh "$@"
"""

ENGINE = (
    RECORD
    + """
_ls_engine() { @ENGINE@ "$@" 5<&- 6>&- 7>&- 8<&- 9>&-; }
(
  _ls_record
  exec >&6 2>&7 </dev/null 5<&- 6>&- 7>&- 8<&- 9>&-
  for _ls_secret in $_ls_secrets; do
    @ENGINE@ secret create "$_ls_secret" "$_ls_spool/$_ls_secret" >/dev/null || exit 125
  done
  unset _ls_stat _ls_pid _ls_secret
  exec @ENGINE@ "$@"
)
_ls_code=$? _ls_oom=0 _ls_state=ran
if [ "$_ls_code" -ge 125 ]; then
  # The client may have ended before its container, or without one.
  _ls_seen=$(_ls_engine inspect --format '{{.State.Status}} {{.State.ExitCode}}' "$_ls_name")
  case $_ls_seen in
    running*|paused*|stopping*)
      # Whoever could not kill the container killed the client: now there is a container.
      if [ "$_ls_code" = 137 ] && [ -e "$_ls_spool/killed" ]; then
        _ls_engine kill --signal KILL "$_ls_name"
      fi
      _ls_code=$(_ls_engine wait "$_ls_name") ;;
    exited*|stopped*|dead*|removing*) _ls_code=${_ls_seen##* } ;;
    *)
      [ "$_ls_code" -ge 128 ] && [ -e "$_ls_spool/killed" ] || _ls_state=never
      _ls_engine rm -f "$_ls_name" ;;
  esac
  [ "${_ls_code:-x}" -ge 0 ] || { _ls_code=125 _ls_state=never; }
fi
if [ "$_ls_code" -ne 0 ]; then
  if [ -n "$_ls_events" ]; then
    while read -r _ls_key _ls_count; do
      [ "$_ls_key" != oom_kill ] || [ "$_ls_count" = 0 ] || _ls_oom=1
    done <"$_ls_events"
  elif [ -n "$_ls_watch" ]; then
    dd bs=8 count=1 <&8 >/dev/null && _ls_oom=1
  fi
fi
_ls_finish "$_ls_code" "$_ls_oom" "$_ls_state"
"""
)

# Each ends what the one before could not: the container by its name, then the engine's client.
KILL = """
@ENGINE@ kill --signal "$1" "$2" || kill -s "$1" "$3"
"""

# Buries an attempt whose supervisor is gone: nothing of it may run on when it is called lost.
BURY = """
@ENGINE@ rm -f "$_ls_name" 9>&-
echo lost >"$_ls_spool/exit"
[ ! -p "$_ls_fifo" ] || echo "$_ls_id" 1<>"$_ls_fifo"
"""

# The second word names the secrets, with blanks between.
RELEASE = """
@ENGINE@ rm -f "$1"
[ -z "$2" ] || @ENGINE@ secret rm $2
shift 2
for _ls_group in "$@"; do [ ! -d "$_ls_group" ] || rmdir "$_ls_group"; done
"""

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


def for_engine(script: str, prefix: tuple[str, ...]) -> str:
    """Return a script with the administrator's engine command (never a user's words) filled in."""
    return script.replace("@ENGINE@", " ".join(shlex.quote(word) for word in prefix))


def for_process(drop: tuple[str, ...]) -> str:
    """Return the process supervisor; `drop` is the command that drops privileges, () for none."""
    if not drop:
        return PROCESS.replace("@LAUNCH@", ENTER)
    words = " ".join(shlex.quote(word) for word in drop)
    return PROCESS.replace("@LAUNCH@", LAUNCH_AS.replace("@DROP@", words))
