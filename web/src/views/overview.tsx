// The first page: where one's work is, whether anything is wrong, and what is being spent.
import { caller } from "../api";
import { Panel } from "../parts/panel";

export function Overview() {
  return (
    <>
      <h1>Overview</h1>
      <Panel title="You">
        <p>
          {caller.value?.user}, {caller.value?.role}
        </p>
      </Panel>
    </>
  );
}
