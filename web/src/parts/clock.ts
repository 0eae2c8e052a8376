// The time that "ago" and durations are told by: one clock for the page, once a second.
import { signal } from "@preact/signals";

/** In seconds since the epoch. */
export const nowS = signal(Date.now() / 1000);
setInterval(() => {
  if (!document.hidden) nowS.value = Date.now() / 1000;
}, 1000);
