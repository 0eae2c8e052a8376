// The dashboard: finds out who looks at it, and shows the view that the address names.
import { effect } from "@preact/signals";
import { render } from "preact";
import { caller, findCaller } from "./api";
import { Frame, titleOf } from "./frame";
import { startFollowing, stopFollowing } from "./live";
import { link, place } from "./router";
import "./style.css";
import { Audit } from "./views/audit";
import { ContainerView } from "./views/container";
import { Containers } from "./views/containers";
import { Costs } from "./views/costs";
import { Decisions } from "./views/decisions";
import { Holds } from "./views/holds";
import { InstanceView, Instances } from "./views/instances";
import { JobView } from "./views/job";
import { Jobs } from "./views/jobs";
import { Login } from "./views/login";
import { Overview } from "./views/overview";
import { Timeline } from "./views/timeline";

function View() {
  const [view = "", id] = place.value.path;
  switch (view) {
    case "":
      return <Overview />;
    case "containers":
      return id === undefined ? <Containers /> : <ContainerView key={id} id={id} />;
    case "jobs":
      return id === undefined ? <Jobs /> : <JobView key={id} id={id} />;
    case "instances":
      return id === undefined ? <Instances /> : <InstanceView key={id} id={id} />;
    case "costs":
      return <Costs />;
    case "timeline":
      return <Timeline />;
    case "holds":
      return <Holds />;
    case "decisions":
      return <Decisions />;
    case "audit":
      return <Audit />;
    default:
      return <Missing />;
  }
}

function Missing() {
  return (
    <>
      <h1>There is no such view</h1>
      <p><a href={link([])}>Back to the overview</a></p>
    </>
  );
}

function Page() {
  if (caller.value === undefined) return <p class="empty">Loading…</p>;
  if (caller.value === null) return <Login />;
  return <Frame><View /></Frame>;
}

effect(() => {
  document.title = caller.value ? titleOf(place.value) : "Longshore";
});
effect(() => {
  if (caller.value) startFollowing();
  else stopFollowing();
});
const page = document.getElementById("page");
if (page) render(<Page />, page);
void findCaller();
