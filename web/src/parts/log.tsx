// A container's log, as it is written. It follows for as long as it is shown, goes on where the
// connection broke, and keeps the last half megabyte in the page.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { straight, withQuery } from "../api";
import { bytes } from "./format";

const MOST_CHARACTERS = 512 * 1024;
const TAIL_BYTES = 256 * 1024;
const RETRY_MS = 2000;

/** `writtenBytes` is how much there is already: of a long log the end is shown. */
export function Log({ containerId, attemptId, writtenBytes }: { containerId: string; attemptId: string; writtenBytes: { stdout: number; stderr: number } }) {
  const stream = useSignal<"stdout" | "stderr">("stdout");
  const text = useSignal("");
  const skipped = useSignal(0);
  const told = useSignal("");
  const follows = useSignal(true);
  const box = useRef<HTMLPreElement>(null);

  useEffect(() => {
    const abort = new AbortController();
    let offset = Math.max(0, writtenBytes[stream.value] - TAIL_BYTES);
    skipped.value = offset;
    text.value = "";
    told.value = "Reading…";
    const decoder = new TextDecoder();
    let gathered = "";
    let frame = 0;
    const draw = (): void => {
      frame = 0;
      const whole = text.value + gathered;
      gathered = "";
      text.value = whole.length > MOST_CHARACTERS ? whole.slice(-MOST_CHARACTERS) : whole;
    };
    const read = async (): Promise<boolean> => {
      const path = withQuery(`v1/containers/${encodeURIComponent(containerId)}/logs`, { stream: stream.value, offset, follow: true });
      const response = await fetch(path, { credentials: "same-origin", signal: abort.signal });
      if (!response.ok || !response.body) {
        const problem = await response.json().catch(() => ({}));
        told.value = problem.detail ?? `The server answered ${response.status}.`;
        return response.status < 500;
      }
      told.value = response.headers.get("Longshore-Log-Problem") ?? "";
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return true;
        offset += value.byteLength;
        gathered += straight(decoder.decode(value, { stream: true }));
        if (frame === 0) frame = requestAnimationFrame(draw);
      }
    };
    const run = async (): Promise<void> => {
      for (;;) {
        try {
          if (await read()) {
            if (!told.value) told.value = "This is all of it.";
            return;
          }
        } catch (error) {
          if (abort.signal.aborted) return;
          if (!(error instanceof TypeError)) throw error;
          told.value = "The connection broke: trying again.";
        }
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
        if (abort.signal.aborted) return;
      }
    };
    void run();
    return () => {
      abort.abort();
      cancelAnimationFrame(frame);
    };
  }, [containerId, attemptId, stream.value]);
  useEffect(() => {
    if (follows.value && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text.value]);

  const onScroll = (): void => {
    const element = box.current;
    if (element) follows.value = element.scrollTop + element.clientHeight >= element.scrollHeight - 24;
  };
  const download = withQuery(`v1/containers/${encodeURIComponent(containerId)}/logs`, { stream: stream.value, follow: false });
  return (
    <div class="log">
      <p class="controls">
        {(["stdout", "stderr"] as const).map((name) => (
          <label key={name}>
            <input type="radio" name="stream" checked={stream.value === name} onChange={() => { stream.value = name; }} /> {name}
          </label>
        ))}
        <a href={download} download={`${containerId}.${stream.value}.txt`}>Download</a>
      </p>
      {skipped.value > 0 && <p class="note">The first {bytes(skipped.value)} are left out here.</p>}
      <pre ref={box} tabIndex={0} role="log" aria-label={`What it wrote to ${stream.value}`} onScroll={onScroll}>{text.value}</pre>
      <p class="note" role="status">{told.value || (follows.value ? "Following." : "Following; scroll to the end to see what is new.")}</p>
    </div>
  );
}
