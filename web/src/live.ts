// What happens, as it happens: one stream of server-sent events for the whole page. Changes are
// gathered and handed on once a frame, so that a thousand of them draw the page once.
import { signal } from "@preact/signals";
import { parsed } from "./api";

export interface Change {
  readonly kind: string;
  readonly id: string;
  readonly data: Record<string, unknown>;
}

type Listener = (changes: readonly Change[]) => void;

const listeners = new Set<Listener>();
/** So many things that changed are kept for a page that draws nothing; then it lists anew. */
const MOST_GATHERED = 10_000;
const KINDS = ["container", "job", "instance", "budget", "unusual_day"] as const;

/** Whether changes come; "lost" is told, and the browser tries again by itself. */
export const connection = signal<"connecting" | "live" | "lost">("connecting");
/** Since when no changes come, as a time in UTC; null while they do. */
export const lostAt = signal<string | null>(null);
/** Counts how often changes may have been missed: lists are to be asked for anew. */
export const missed = signal(0);

let source: EventSource | null = null;
let gathered = new Map<string, Change>();
let isScheduled = false;
let isTooMuch = false;

export function follow(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function startFollowing(): void {
  if (source) return;
  source = new EventSource("v1/events");
  source.onopen = () => {
    if (connection.value === "lost") missed.value += 1;
    connection.value = "live";
    lostAt.value = null;
  };
  source.onerror = () => {
    connection.value = "lost";
    lostAt.value ??= new Date().toISOString();
    // A refusal closes it for good: try again, as it may have been the server's start.
    if (source?.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(startFollowing, 3000);
    }
  };
  source.addEventListener("gap", () => {
    missed.value += 1;
  });
  for (const kind of KINDS) source.addEventListener(kind, (event) => take((event as MessageEvent<string>).data));
}

export function stopFollowing(): void {
  source?.close();
  source = null;
  connection.value = "connecting";
  lostAt.value = null;
}

function take(text: string): void {
  const change = parsed<Change>(text);
  if (gathered.size < MOST_GATHERED) gathered.set(`${change.kind} ${change.id}`, change);
  else isTooMuch = true;
  if (isScheduled) return;
  isScheduled = true;
  // A page in the background gets no frames: there nothing is drawn either.
  requestAnimationFrame(() => {
    isScheduled = false;
    const changes = [...gathered.values()];
    gathered = new Map();
    for (const listener of listeners) listener(changes);
    if (isTooMuch) missed.value += 1;
    isTooMuch = false;
  });
}
