// How much of a limit is used: a bar, and the same in words.
const NEARLY = 0.8;

export function Gauge({ label, used, limit, text }: { label: string; used: number; limit: number; text: string }) {
  const share = limit > 0 ? used / limit : used > 0 ? 1 : 0;
  const tone = share >= 1 ? "bad" : share >= NEARLY ? "warn" : "";
  return (
    <div class="gauge">
      <div class="whole" role="img" aria-label={`${label}: ${text}`}>
        <span class={tone} style={{ width: `${Math.min(1, share) * 100}%` }} />
      </div>
      <span class="quiet">{text}</span>
    </div>
  );
}
