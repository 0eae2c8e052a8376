// Colours for what is drawn on a canvas, which cannot resolve `light-dark()` itself: they are read
// as the page computes them, and again when the scheme changes.
import { signal } from "@preact/signals";

/** Counts how often the colours changed: who draws looks at it, and draws anew. */
export const scheme = signal(0);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  scheme.value += 1;
});

const probe = document.createElement("span");
probe.hidden = true;
document.documentElement.append(probe);

/** Return a colour of the style sheet, by its variable's name without dashes, as rgb(). */
export function colour(name: string): string {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}
