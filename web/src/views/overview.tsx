// The first page: where one's work is, what is wrong and what to turn, whether spending is on track.
// Each is a panel of its own, and who may not see what is in one is not shown it.
import { isAdmin } from "../api";
import { Pool, Trouble } from "./overview_admin";
import { Spending } from "./overview_spending";
import { Work } from "./overview_work";

export function Overview() {
  const forAdmins = isAdmin();
  return (
    <>
      <h1>Overview</h1>
      <div class="panels first-page">
        <Work />
        <div>
          {forAdmins && <Trouble />}
          <Spending />
          {forAdmins && <Pool />}
        </div>
      </div>
    </>
  );
}
