// Numbers, money and times as people read them. Amounts come exact, and are rounded here alone.

const MINUS = "\u2212";

/** Return an amount in US dollars: cents, or more places where that would be nothing. */
export function usd(amount: number): string {
  const size = Math.abs(amount);
  const places = size === 0 || size >= 0.995 ? 2 : size >= 0.01 ? 3 : size >= 0.0001 ? 5 : 8;
  const text = size.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: places });
  return `${amount < 0 ? MINUS : ""}$${text}`;
}

/** Return a share as per cent. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(Math.abs(share) < 0.1 && share !== 0 ? 1 : 0)} %`;
}

export function count(amount: number): string {
  return amount.toLocaleString("en-US");
}

export function plural(amount: number, one: string, many = `${one}s`): string {
  return `${count(amount)} ${amount === 1 ? one : many}`;
}

/** Return how long something takes or took: the two largest units. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const units: [string, number][] = [
    ["d", Math.floor(whole / 86400)],
    ["h", Math.floor(whole / 3600) % 24],
    ["min", Math.floor(whole / 60) % 60],
    ["s", whole % 60],
  ];
  const first = units.findIndex(([, amount]) => amount > 0);
  if (first < 0) return "0 s";
  return units
    .slice(first, first + 2)
    .filter(([, amount], index) => index === 0 || amount > 0)
    .map(([unit, amount]) => `${amount} ${unit}`)
    .join(" ");
}

export function seconds(moment: string | null | undefined): number | null {
  return moment ? Date.parse(moment) / 1000 : null;
}

/** Return how long ago a moment was, or in how long it will be. */
export function ago(moment: string | null | undefined, nowS: number): string {
  const at = seconds(moment);
  if (at === null) return "never";
  return at > nowS + 1 ? `in ${duration(at - nowS)}` : `${duration(nowS - at)} ago`;
}

/** Return a moment as date and time in the browser's zone, to the second. */
export function localTime(moment: string | null | undefined): string {
  if (!moment) return "\u2014";
  const at = new Date(moment);
  const two = (part: number): string => String(part).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** Return a size in bytes as people read it. */
export function bytes(amount: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = amount;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size >= 100 || Number.isInteger(size) ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}
