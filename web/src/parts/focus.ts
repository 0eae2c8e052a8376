// Where the keyboard is. A browser forgets it when what has the focus leaves the page: then who uses
// the keyboard begins at the top again, and a screen reader falls silent. So the focus goes to the
// heading of a view that is opened, and from what goes away to the nearest thing around it.
import { type RefObject } from "preact";
import { useEffect } from "preact/hooks";

/** Keep the focus in `box`; `view` names what is shown in it. */
export function useKeptFocus(box: RefObject<HTMLElement | null>, view: string): void {
  useEffect(() => {
    const whole = box.current;
    if (!whole) return;
    // Of what had the focus, and of all around it, the innermost first.
    let around: HTMLElement[] = [];
    const note = (event: FocusEvent): void => {
      around = [];
      for (let each = event.target; each instanceof HTMLElement && each !== whole; each = each.parentElement) around.push(each);
    };
    const leave = (): void => {
      // Whether it leaves the page, or somebody has put it down, is known when this has happened.
      setTimeout(() => {
        if (around[0]?.isConnected && document.activeElement === document.body) around = [];
      });
    };
    const look = (): void => {
      if (document.activeElement !== document.body || around[0]?.isConnected !== false) return;
      const left = around.find((each) => each.isConnected && each.tabIndex >= 0);
      if (left) left.focus({ preventScroll: true });
      else toHeading(whole);
    };
    const observer = new MutationObserver(look);
    observer.observe(whole, { childList: true, subtree: true });
    whole.addEventListener("focusin", note);
    whole.addEventListener("focusout", leave);
    return () => {
      observer.disconnect();
      whole.removeEventListener("focusin", note);
      whole.removeEventListener("focusout", leave);
    };
  }, []);
  useEffect(() => {
    const whole = box.current;
    if (!whole || toHeading(whole)) return;
    // The heading comes with what is asked for, unless somebody has gone elsewhere by then.
    const observer = new MutationObserver(() => {
      if (document.activeElement !== whole || toHeading(whole)) observer.disconnect();
    });
    observer.observe(whole, { childList: true, subtree: true });
    return () => observer.disconnect();
  }, [view]);
}

/** Move the focus to the heading, or else to the whole; returns whether there is a heading. */
function toHeading(whole: HTMLElement): boolean {
  const heading = whole.querySelector("h1");
  if (heading) heading.tabIndex = -1;
  (heading ?? whole).focus();
  return heading !== null;
}
