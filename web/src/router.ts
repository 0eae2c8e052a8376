// Where one is: the fragment of the address, as `#/containers/c-1?state=running`. The server knows
// nothing of it, so that no view needs a path of its own there, or under a proxy's prefix.
import { computed, signal } from "@preact/signals";

const fragment = signal(location.hash);
addEventListener("hashchange", () => {
  fragment.value = location.hash;
});

export interface Place {
  /** The parts of the path: ["containers", "c-1"]; of the first page []. */
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

export const place = computed<Place>(() => {
  const [path = "", query = ""] = fragment.value.replace(/^#\/?/, "").split("?", 2);
  return {
    path: path.split("/").filter(Boolean).map(decodeURIComponent),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
});

/** Return the address of a view. */
export function link(path: readonly string[], query: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** Change the query of the view that is shown, without a new entry in the browser's history. */
export function setQuery(changes: Record<string, string>): void {
  const { path, query } = place.value;
  history.replaceState(null, "", link(path, { ...query, ...changes }));
  fragment.value = location.hash;
}
