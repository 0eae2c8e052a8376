// Asking the server: one place that sends, reads refusals, and knows when somebody has to log in.
import { signal } from "@preact/signals";
import type { components } from "./api_types";

export type Answers = components["schemas"];
export type Caller = Answers["CallerAnswer"];

/** Who is logged in; null for nobody, undefined while that is not known yet. */
export const caller = signal<Caller | null | undefined>(undefined);

/** What the server said when it refused: a sentence, and what is wrong where. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly errors: readonly { path: string; message: string }[] = [],
  ) {
    super(message);
  }

  /** All that it says, in one text. */
  get whole(): string {
    const parts = this.errors.map((each) => (each.path ? `${each.path}: ${each.message}` : each.message));
    return [this.message, ...parts].join(" ");
  }
}

export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

/** Return a path with a query string, without what is undefined or "". */
export function withQuery(path: string, query: Query = {}): string {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "") continue;
    made.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  const text = made.toString();
  return text ? `${path}?${text}` : path;
}

/** Characters that turn the reading order around, also of what comes after them. */
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Return a text that reads in the order in which it is written, with the code of what would turn it. */
export function straight(text: string): string {
  return text.replace(TURNS, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Return what JSON says, with all its texts straight: whoever wrote them, they are read by others. */
export function parsed<T>(json: string): T {
  // Such a character can only be in a string; there a backslash is written as two.
  return JSON.parse(json.replace(TURNS, (one) => `\\${straight(one)}`)) as T;
}

async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const init: RequestInit = { method, credentials: "same-origin", headers: { Accept: "application/json" } };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, "Content-Type": "application/json" };
  }
  if (signal) init.signal = signal;
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refusal(0, "The server does not answer: see that it runs, and that you reach it.");
  }
  if (response.ok) return parsed<T>(await response.text());
  const told = await response.json().catch(() => ({}));
  if (response.status === 401 && !path.startsWith("login")) caller.value = null;
  throw new Refusal(response.status, told.detail ?? `The server answered ${response.status}.`, told.errors ?? []);
}

export const get = <T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> =>
  ask<T>("GET", withQuery(path, query), undefined, signal);
export const send = <T>(method: "POST" | "PUT" | "PATCH" | "DELETE", path: string, body: unknown = {}): Promise<T> =>
  ask<T>(method, path, body);

/** Find out who is logged in. */
export async function findCaller(): Promise<void> {
  try {
    caller.value = await get<Caller>("v1/whoami");
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.status !== 401) serverProblem.value = error.whole;
    caller.value = null;
  }
}

/** By what one can log in beside a token: the issuer's host, or null. */
export interface LoginMethods {
  readonly issuer: string | null;
}

/** Where one logs out of the issuer, too, after one has logged out here; "" for nowhere. */
export const issuerLogout = signal("");

/** Why the server could not be asked who one is; "" where it could. */
export const serverProblem = signal("");

export async function login(token: string): Promise<void> {
  caller.value = await send<Caller>("POST", "login", { token });
}

export async function logout(): Promise<void> {
  const told = await send<{ issuer_logout: string | null }>("POST", "logout");
  issuerLogout.value = told.issuer_logout ?? "";
  caller.value = null;
}

export const isAdmin = (): boolean => caller.value?.role === "admin";
