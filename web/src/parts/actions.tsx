// Doing something to what is shown: asks first where it cannot be undone, says what came of it.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Refusal } from "../api";

/** A button that asks in a dialog before it acts; `children` are further fields of the dialog. */
export function Action({ name, question, act, isGrave, children }: {
  name: string;
  question: string;
  act: (fields: FormData) => Promise<unknown>;
  isGrave?: boolean;
  children?: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const problem = useSignal("");
  const busy = useSignal(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    busy.value = true;
    problem.value = "";
    try {
      await act(new FormData(event.currentTarget as HTMLFormElement));
      dialog.current?.close();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      problem.value = error.whole;
    } finally {
      busy.value = false;
    }
  };
  return (
    <>
      <button type="button" class={isGrave ? "grave" : ""} onClick={() => dialog.current?.showModal()}>{name}</button>
      <dialog ref={dialog} aria-label={name}>
        <form onSubmit={(event) => void submit(event)}>
          <p>{question}</p>
          {children}
          {problem.value && <p class="problem" role="alert">{problem.value}</p>}
          <p class="controls">
            <button type="submit" class={isGrave ? "grave" : ""} disabled={busy.value}>{name}</button>
            <button type="button" onClick={() => dialog.current?.close()}>Back</button>
          </p>
        </form>
      </dialog>
    </>
  );
}
