"""The machines behind the addresses: real `sshd` processes on loopback addresses of their own.

They are this machine, so nothing that is meant for a fresh one may run here: of the user data only
the script that Longshore handed to the driver is run, and what would shut down, mount or format is
replaced by a harmless note on the machine's own search path, in its sessions too.
"""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from longshore.drivers.errors import CloudError
from longshore.drivers.local.machine import instance_environment, remove_files, run_init
from longshore.drivers.local.processes import end_processes
from longshore.drivers.local.ssh_command import Wake
from tests.ec2_bed.user_data import init_script
from tests.sshd_host import SshdHost, wait_until

HARMLESS = (
    *("halt", "init", "poweroff", "reboot", "shutdown", "sudo", "telinit"),
    *("blkid", "mkfs", "mkfs.ext4", "mkfs.xfs", "mount", "umount", "swapon", "parted", "wipefs"),
    *("ip6tables", "iptables", "nft", "service", "systemctl", "useradd", "usermod", "sysctl"),
)
_GUARD = """\
#!/bin/sh
echo "${0##*/} $*" >>"$LONGSHORE_BED_DIR/guarded"
case "${0##*/}" in halt | poweroff | shutdown) : >"$LONGSHORE_BED_DIR/powered-off" ;; esac
exit 0
"""
_HIGHEST = 250


class Machine:
    """One machine: it boots on a thread of its own, refuses connections meanwhile, and ends once.

    `address` is its own from the first moment; `metadata_url` is where it finds its metadata.
    """

    def __init__(
        self, instance_id: str, directory: Path, *, address: str, port: int, metadata_url: str
    ) -> None:
        self.id = instance_id
        self.address = address
        self.trouble = ""
        self._port = port
        self._directory = directory
        self._wake = Wake()
        self._host: SshdHost | None = None
        self._ended = False
        self._lock = threading.Lock()
        guards = directory / "guards"
        guards.mkdir(parents=True, mode=0o700)
        for name in HARMLESS:
            (guards / name).write_text(_GUARD, encoding="utf-8")
            (guards / name).chmod(0o700)
        login = instance_environment(instance_id, directory)
        self._environment = {
            **login,
            "PATH": f"{guards}:{login['PATH']}",
            "HOME": str(directory),
            "LONGSHORE_BED_DIR": str(directory),
            "LONGSHORE_METADATA_URL": metadata_url,
        }
        self._boot_thread: threading.Thread | None = None

    def boot(self, user_data: str, authorized_key: str) -> None:
        """Begin to boot: run the init script, then let `authorized_key` in."""
        self._boot_thread = threading.Thread(
            target=self._boot, args=(user_data, authorized_key), name=f"boot {self.id}"
        )
        self._boot_thread.start()

    @property
    def powered_off(self) -> bool:
        """Return whether something on it has told it to power off."""
        return (self._directory / "powered-off").exists()

    def end(self) -> None:
        """End everything that runs on it, and remove its files. Twice is fine."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._wake.set()
        if self._boot_thread is not None:
            self._boot_thread.join()
        self._wake.close()
        if self._host is not None:
            self._host.stop()
        end_processes(self.id)
        remove_files(self._directory)

    def _boot(self, user_data: str, authorized_key: str) -> None:
        try:
            script = init_script(user_data, authorized_key)
            if not run_init(
                script, environment=self._environment, directory=self._directory, wake=self._wake
            ):
                return
            self._host = SshdHost(
                self._directory,
                host=self.address,
                authorized_key=authorized_key,
                port=self._port,
                environment=self._environment,
            )
        except (OSError, ValueError, CloudError, AssertionError) as error:
            # It never answers, as a machine that does not boot; the tests look at `trouble`.
            self.trouble = f"{type(error).__name__}: {error}"


class Machines:
    """All machines of a bed, each on an address of its own and all on the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._machines: dict[str, Machine] = {}
        self._ending: list[threading.Thread] = []
        self._next = 0
        # Another bed on this machine has another network, as long as its process lives.
        self._network = f"127.{64 + os.getpid() % 128}.{os.getpid() // 128 % 250}"
        # Held, so that nobody else is given the port for all addresses.
        self._placeholder = socket.socket()
        self._placeholder.bind((f"{self._network}.254", 0))
        self.port: int = self._placeholder.getsockname()[1]

    def launch(self, instance_id: str, *, metadata_url: str) -> Machine:
        """Return a new machine, which does not boot yet."""
        with self._lock:
            machine = Machine(
                instance_id,
                self._directory / instance_id,
                address=self._free_address(),
                port=self.port,
                metadata_url=metadata_url,
            )
            self._machines[instance_id] = machine
            return machine

    def get(self, instance_id: str) -> Machine | None:
        """Return the machine of an instance, None when there is none (any more)."""
        with self._lock:
            return self._machines.get(instance_id)

    def running(self) -> list[str]:
        """Return the ids of those that have not ended, sorted."""
        with self._lock:
            return sorted(self._machines)

    def trouble(self) -> list[str]:
        """Return what kept machines from booting: nothing ever should."""
        with self._lock:
            return [
                f"{each.id}: {each.trouble}" for each in self._machines.values() if each.trouble
            ]

    def end(self, instance_id: str) -> None:
        """Begin to end a machine, on a thread of its own; no error when there is none."""
        machine = self.get(instance_id)
        if machine is None:
            return
        thread = threading.Thread(target=self._end, args=(machine,), name=f"end {instance_id}")
        with self._lock:
            self._ending.append(thread)
        thread.start()

    def end_all(self) -> None:
        """End all machines and wait until they have."""
        for instance_id in self.running():
            self.end(instance_id)
        with self._lock:
            ending, self._ending = self._ending, []
        for thread in ending:
            thread.join()
        wait_until(lambda: not self.running(), "the machines of the bed to end", timeout_s=60)

    def close(self) -> None:
        """End all machines, and give the port back."""
        self.end_all()
        self._placeholder.close()

    def _end(self, machine: Machine) -> None:
        machine.end()
        with self._lock:
            self._machines.pop(machine.id, None)

    def _free_address(self) -> str:
        taken = {machine.address for machine in self._machines.values()}
        for _ in range(_HIGHEST):
            self._next = self._next % _HIGHEST + 1
            address = f"{self._network}.{self._next}"
            if address not in taken:
                return address
        raise AssertionError(f"all {_HIGHEST} addresses of the bed are taken")
