"""What is run on an instance: how it ends itself, and how it hears that EC2 takes it back."""

from __future__ import annotations

import shlex
from typing import Final

POWER_OFF: Final = (
    'if [ "$(id -u)" = 0 ]; then shutdown -h now || poweroff -f;'
    " else sudo -n shutdown -h now || sudo -n poweroff -f; fi"
)
"""Shell that powers an instance off; EC2 then terminates it, as its launch asked for."""

METADATA_VARIABLE: Final = "LONGSHORE_METADATA_URL"
_POLL_S: Final = 5
_WARNING_S: Final = 120

# No single quotes, since the shell's stand around it. What asks for a token again and again is what
# IMDSv2 wants; every failure is "no notice yet", since the instance cannot know better.
_WATCH_PROGRAM: Final = rf"""
import http.client, json, os, re, sys, time, urllib.error, urllib.request
base = (os.environ.get("{METADATA_VARIABLE}") or "http://169.254.169.254").rstrip("/") + "/latest"
ask = urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open
token = ""
while True:
    try:
        if not token:
            header = {{"X-aws-ec2-metadata-token-ttl-seconds": "21600"}}
            wish = urllib.request.Request(base + "/api/token", method="PUT", headers=header)
            with ask(wish, timeout=5) as answer:
                token = answer.read(4096).decode()
        header = {{"X-aws-ec2-metadata-token": token}}
        path = base + "/meta-data/spot/instance-action"
        with ask(urllib.request.Request(path, headers=header), timeout=5) as answer:
            notice = json.loads(answer.read(65536).decode())
        told = re.match(r"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d", str(notice.get("time", "")))
        later = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + {_WARNING_S}))
        print((told.group() if told else later) + "Z", flush=True)
        sys.exit(0)
    except urllib.error.HTTPError as error:
        if error.code == 401:
            token = ""
    except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
        print("no answer of the metadata service: %s" % error, file=sys.stderr)
    time.sleep({_POLL_S})
"""

INTERRUPTION_WATCH: Final = f"exec python3 -I -c {shlex.quote(_WATCH_PROGRAM)}"
"""Shell that ends when EC2 takes the instance back, having printed when; see `interface.py`."""
