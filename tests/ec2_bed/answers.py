"""EC2's answers as XML: errors, and listings that are read, cut into pages and changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15"
_IN = f"{{{NAMESPACE}}}"

ET.register_namespace("", NAMESPACE)


def error(code: str, message: str) -> bytes:
    """Return the body of a refusal."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error>'
        f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
        "</Error></Errors><RequestID>0a0b0c0d-bed</RequestID></Response>"
    ).encode()


def parsed(body: bytes) -> ET.Element:
    """Return an answer as a tree."""
    return ET.fromstring(body)  # noqa: S314 - it comes from our own moto


def written(answer: ET.Element) -> bytes:
    """Return a tree as the body of an answer."""
    body: bytes = ET.tostring(answer, encoding="utf-8", xml_declaration=True)
    return body


def text(item: ET.Element, path: str) -> str:
    """Return the text of an element below `item`, "" when there is none."""
    return item.findtext("/".join(_IN + name for name in path.split("/"))) or ""


def child(item: ET.Element, path: str) -> ET.Element | None:
    """Return an element below `item`."""
    return item.find("/".join(_IN + name for name in path.split("/")))


def set_text(item: ET.Element, name: str, value: str) -> None:
    """Set the text of a child, which is made when it is missing."""
    found = item.find(_IN + name)
    if found is None:
        found = ET.SubElement(item, _IN + name)
    found.text = value


def block_devices(images: ET.Element) -> dict[str, dict[str, str]]:
    """Return the volumes that an image's description maps: by device what is said of each."""
    return {
        text(item, "deviceName"): {
            "VolumeSize": text(item, "ebs/volumeSize"),
            "DeleteOnTermination": text(item, "ebs/deleteOnTermination"),
        }
        for mapping in images.iter(f"{_IN}blockDeviceMapping")
        for item in mapping
        if child(item, "ebs") is not None
    }


def reservations(answer: ET.Element) -> ET.Element:
    """Return the set of reservations of a listing."""
    found = answer.find(f"{_IN}reservationSet")
    assert found is not None
    return found


def instances(answer: ET.Element) -> Iterator[tuple[ET.Element, ET.Element]]:
    """Yield each instance of an answer with its reservation: of a listing, or of a launch."""
    found = answer.find(f"{_IN}reservationSet")
    for reservation in [answer] if found is None else list(found):
        group = reservation.find(f"{_IN}instancesSet")
        for instance in [] if group is None else list(group):
            yield reservation, instance


def tags(instance: ET.Element) -> dict[str, str]:
    """Return the tags of an instance."""
    group = instance.find(f"{_IN}tagSet")
    items = [] if group is None else list(group)
    return {text(item, "key"): text(item, "value") for item in items}


def set_tags(instance: ET.Element, values: Mapping[str, str]) -> None:
    """Make these the tags of an instance."""
    group = instance.find(f"{_IN}tagSet")
    if group is None:
        group = ET.SubElement(instance, f"{_IN}tagSet")
    group.clear()
    for key, value in sorted(values.items()):
        item = ET.SubElement(group, f"{_IN}item")
        set_text(item, "key", key)
        set_text(item, "value", value)


def launch_of(listing: ET.Element) -> ET.Element:
    """Return the answer of a launch that tells of the one reservation of a listing."""
    (reservation,) = list(reservations(listing))
    answer = ET.Element(f"{_IN}RunInstancesResponse")
    answer.extend(copy.deepcopy(list(reservation)))
    return answer


def of_families(answer: ET.Element, families: Sequence[str]) -> ET.Element:
    """Keep of an answer about instance types what is about these families; returns `answer`."""
    (group,) = [each for each in answer if each.tag.endswith("Set")]
    for item in list(group):
        if text(item, "instanceType").partition(".")[0] not in families:
            group.remove(item)
    return answer


def page(answer: ET.Element, size: int, token: str, *, name: str = "page") -> ET.Element:
    """Return one page of an answer that has everything.

    `token` is that of the page before ("" for the first), `name` how the tokens begin.
    """
    (group,) = [each for each in answer if each.tag.endswith("Set")]
    begin = int(token.rpartition("-")[2]) if token else 0
    items: Sequence[ET.Element] = list(group)
    cut = ET.Element(answer.tag)
    ET.SubElement(cut, group.tag).extend(items[begin : begin + size])
    if begin + size < len(items):
        set_text(cut, "nextToken", f"{name}-{begin + size}")
    return cut
