// Names and what they are, as a list of two columns; what is not known is left out.
import type { ComponentChildren } from "preact";

export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {of
        .filter(([, what]) => what !== null && what !== undefined && what !== "" && what !== false)
        .map(([name, what]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{what}</dd>
          </div>
        ))}
    </dl>
  );
}
