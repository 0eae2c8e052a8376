"""Makes the pictures of docs/screenshots: each view of the dashboard, light and dark.

`python tools/screenshots.py` starts a server with a team's work on it and takes them in Chromium;
`--only queue,job` takes some. Needs root, and Debian's Chromium. A view of the router needs an
entry of `PICTURES`, which a test holds.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser import chromium, visit  # noqa: E402 - found there
from tests.pictured_server import Scene, pictured_server  # noqa: E402 - found there

FOLDER = ROOT / "docs" / "screenshots"
WIDTH_PX = 1280
COLOURS = 256
MOST_BYTES = 150_000
SCHEMES = ("light", "dark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One view: the file's name, the view's fragment, and a text that is there once it is drawn."""

    name: str
    view: str
    shows: str


PICTURES = (
    Picture(name="overview", view="", shows="Overview"),
    Picture(name="queue", view="containers", shows="rain-2024"),
    Picture(name="container", view="containers/{container}", shows="Following"),
    Picture(name="jobs", view="jobs", shows="genomes-week-48"),
    Picture(name="job", view="jobs/{job}", shows="What follows what"),
    Picture(name="instances", view="instances", shows="c5.xlarge"),
    Picture(name="instance", view="instances/{instance}", shows="looking at its disk"),
    Picture(name="costs", view="costs", shows="By whom"),
    Picture(name="timeline", view="timeline", shows="Timeline"),
    Picture(name="holds", view="holds", shows="max_instances"),
    Picture(name="decisions", view="decisions", shows="is created"),
    Picture(name="audit", view="audit", shows="idle-behavior"),
)
"""The views of `web/src/main.tsx`, in the order of the documentation."""


def file_of(picture: Picture, scheme: str) -> Path:
    """Return where a picture is kept."""
    return FOLDER / f"{picture.name}-{scheme}.png"


def compressed(png: bytes) -> bytes:
    """Return a picture with fewer colours, which a page of text does not need."""
    few = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    made = io.BytesIO()
    few.save(made, format="PNG", optimize=True)
    return made.getvalue()


def take(scene: Scene, pictures: tuple[Picture, ...]) -> None:
    """Write the pictures of a server."""
    FOLDER.mkdir(exist_ok=True)
    with chromium() as browser:
        for scheme in SCHEMES:
            is_dark = scheme == "dark"
            with visit(browser, scene.server.url, width=WIDTH_PX, dark=is_dark) as seen:
                seen.login(scene.admin)
                for picture in pictures:
                    view = picture.view.format(
                        container=scene.container, job=scene.job, instance=scene.instance
                    )
                    seen.open(view)
                    seen.shows(picture.shows)
                    seen.until(lambda: "Loading" not in seen.text(), "it is drawn")
                    # A frame later what is painted on a canvas is there, too.
                    seen.page.wait_for_timeout(300)
                    png = seen.page.screenshot(animations="disabled", full_page=True)
                    file_of(picture, scheme).write_bytes(compressed(png))


def main() -> int:
    """Take the pictures and tell how large they are; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="names of pictures, with commas")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else [each.name for each in PICTURES]
    chosen = tuple(each for each in PICTURES if each.name in names)
    if len(chosen) < len(names):
        parser.error(f"there are these: {', '.join(each.name for each in PICTURES)}")
    with tempfile.TemporaryDirectory() as folder, pictured_server(Path(folder) / "s") as scene:
        take(scene, chosen)
    sizes = {
        file_of(each, scheme).name: file_of(each, scheme).stat().st_size
        for each in chosen
        for scheme in SCHEMES
    }
    for name, size in sizes.items():
        print(f"{name:<28} {size:>8,} bytes")
    return int(max(sizes.values()) > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
