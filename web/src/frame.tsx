// What is around every view: where one can go, who one is, whether changes come.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { caller, logout } from "./api";
import { connection, lostAt } from "./live";
import { useKeptFocus } from "./parts/focus";
import { localTime } from "./parts/format";
import { link, type Place, place } from "./router";

interface Entry {
  readonly path: string;
  readonly name: string;
  readonly forAdmins?: boolean;
}

const ENTRIES: readonly Entry[] = [
  { path: "", name: "Overview" },
  { path: "containers", name: "Queue" },
  { path: "jobs", name: "Jobs" },
  { path: "costs", name: "Costs" },
  { path: "instances", name: "Instances", forAdmins: true },
  { path: "timeline", name: "Timeline", forAdmins: true },
  { path: "holds", name: "Holds", forAdmins: true },
  { path: "decisions", name: "Decisions", forAdmins: true },
  { path: "audit", name: "Audit", forAdmins: true },
];

const TOLD = {
  connecting: "Connecting…",
  live: "Live",
  lost: "Connection lost: trying again",
} as const;

/** Return the title of the browser's window: the view, or what it is of. */
export function titleOf({ path }: Place): string {
  const [view = "", id] = path;
  const name = id ?? ENTRIES.find((each) => each.path === view)?.name ?? "No such view";
  return `${name} \u00b7 Longshore`;
}

export function Frame({ children }: { children: ComponentChildren }) {
  const here = place.value.path[0] ?? "";
  const main = useRef<HTMLElement>(null);
  useKeptFocus(main, place.value.path.join("/"));
  const who = caller.value;
  const mayLeave = who?.door === "token" || who?.door === "issuer";
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to the content
      </a>
      <header class="top">
        <a class="name" href={link([])}>Longshore</a>
        <nav aria-label="Views">
          {ENTRIES.filter((each) => !each.forAdmins || who?.role === "admin").map((each) => (
            <a key={each.path} href={link(each.path ? [each.path] : [])} aria-current={here === each.path ? "page" : undefined}>
              {each.name}
            </a>
          ))}
        </nav>
        <p class={`connection ${connection.value}`} role="status">{TOLD[connection.value]}</p>
        <p class="who">
          {who?.user} <span class="role">({who?.role})</span>
          {mayLeave && <button type="button" onClick={() => void logout()}>Log out</button>}
        </p>
      </header>
      {lostAt.value !== null && (
        <p class="lost" role="alert">
          The server is not reached since {localTime(lostAt.value)}: what is shown is of then. It is tried again by itself.
        </p>
      )}
      <main id="main" ref={main} tabIndex={-1}>{children}</main>
    </>
  );
}
