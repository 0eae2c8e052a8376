"""What an image says of its volumes, which a launch must say otherwise for them to end with it."""

from __future__ import annotations

import logging
import threading
from typing import Any

from longshore.drivers.ec2.faults import FAILURES, FORBIDDEN, judged

_log = logging.getLogger(__name__)

_CANNOT_BE_ASKED = FORBIDDEN | {"InvalidAction", "UnsupportedOperation"}
_PARAMETER = "resolve:"


class Images:
    """Tells which devices of an image are volumes; EC2 is asked once for each image."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._devices: dict[str, tuple[str, ...]] = {}
        self._complained: set[str] = set()

    def volume_devices(self, image: str) -> tuple[str, ...]:
        """Return the devices that an image maps to EBS volumes, sorted.

        None where they cannot be looked up: the credentials may not, or the image is a parameter
        that only a launch resolves. That is logged once, and such volumes stay or go as the image
        says. Raises any other `CloudError`; nothing was launched then.
        """
        # Creates come ten at a time: the others wait for the one that asks.
        with self._lock:
            devices = self._devices.get(image)
            if devices is None:
                devices = self._described(image)
            return devices

    def _described(self, image: str) -> tuple[str, ...]:
        if image.startswith(_PARAMETER):
            self._complain(image, "only a launch looks such a name up; name the image by its id")
            return ()
        try:
            answer = self._client.describe_images(ImageIds=[image])
        except FAILURES as failure:
            verdict = judged(failure, call="DescribeImages", changes=False)
            if verdict.code not in _CANNOT_BE_ASKED:
                raise verdict.error from failure
            # Not kept: the right may be given while we run.
            self._complain("", str(verdict.error))
            return ()
        devices = tuple(
            sorted(
                mapping["DeviceName"]
                for described in answer.get("Images", [])
                for mapping in described.get("BlockDeviceMappings", [])
                if "Ebs" in mapping
            )
        )
        if answer.get("Images"):
            self._devices[image] = devices
        return devices

    def _complain(self, about: str, why: str) -> None:
        if about not in self._complained:
            self._complained.add(about)
            _log.warning(
                "whether volumes of %s end with their instance is as the image says: %s",
                about or "images",
                why,
            )
