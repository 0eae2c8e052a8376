// Logging in, where the server asks who one is: at the issuer if it has one, or with a token.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, issuerLogout, login, type LoginMethods, Refusal, serverProblem } from "../api";

export function Login() {
  const problem = useSignal(serverProblem.value);
  const busy = useSignal(false);
  const issuer = useSignal<string | null>(null);
  useEffect(() => {
    const find = async (): Promise<void> => {
      try {
        issuer.value = (await get<LoginMethods>("login/methods")).issuer;
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        problem.value = error.whole;
      }
    };
    void find();
  }, []);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const token = String(new FormData(form).get("token") ?? "").trim();
    busy.value = true;
    try {
      await login(token);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      problem.value = error.whole;
    } finally {
      busy.value = false;
    }
  };
  return (
    <main class="login">
      <h1>Longshore</h1>
      {issuerLogout.value && (
        <p class="note" role="status">
          You are logged out here, and still logged in at the issuer.{" "}
          <a href={issuerLogout.value}>Log out there, too</a>
        </p>
      )}
      {issuer.value && (
        <p><a class="button" href="login/start">Log in with {issuer.value}</a></p>
      )}
      <form onSubmit={(event) => void submit(event)}>
        <label for="token">Token</label>
        <input id="token" name="token" type="password" required autocomplete="current-password" autofocus />
        <button type="submit" disabled={busy.value}>Log in</button>
        {problem.value && <p class="problem" role="alert">{problem.value}</p>}
        <p class="note">
          An admin makes one with <code>longshore token create</code>. It stays in this browser for twelve hours at
          most, and no script can read it.
        </p>
      </form>
    </main>
  );
}
