// Draws the rows of a timeline that are in view on a canvas, and tells what is at a point of it.
import { colour } from "./colours";
import type { Bar, Row, Spot } from "./lanes";

export const ROW_PX = 44;
export const AXIS_PX = 26;
const BAND_PX = 6;
const LANES_TOP_PX = 10;
const LANES_PX = ROW_PX - LANES_TOP_PX - 3;
const LEAST_PX = 1.5;
const HATCH_PX = 6;
const TICK_PX = 90;
const STEPS_S = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400] as const;

/** The states of an instance with their colours; those that cost and do nothing are hatched. */
export const BANDS: readonly (readonly [string, string, boolean])[] = [
  ["pending", "quiet", false],
  ["booting", "warn", false],
  ["room", "good", false],
  ["empty", "quiet", true],
  ["held", "warn", true],
  ["draining", "busy", true],
  ["unreachable", "bad", false],
  ["unwanted", "bad", true],
];
/** How attempts ended, with their colours; those that were broken off are hatched. */
export const BARS: readonly (readonly [string, string, boolean])[] = [
  ["running", "busy", false],
  ["succeeded", "good", false],
  ["failed", "bad", false],
  ["lost", "bad", true],
  ["preempted", "warn", true],
  ["cancelled", "quiet", true],
];
const BAND_OF = new Map(BANDS.map(([name, tone, hatched]) => [name, { tone, hatched }]));
const BAR_OF = new Map(BARS.map(([name, tone, hatched]) => [name, { tone, hatched }]));

export interface Scene {
  readonly rows: readonly Row[];
  readonly fromS: number;
  readonly toS: number;
  readonly nowS: number;
  /** What is seen of all rows: from which pixel on, and how large the canvas is. */
  readonly topPx: number;
  readonly widthPx: number;
  readonly heightPx: number;
  readonly chosen: Spot | null;
}

/** Return which rows are in view: from one to before another. */
export function inView(scene: Scene): [number, number] {
  const first = Math.max(0, Math.floor(scene.topPx / ROW_PX));
  return [first, Math.min(scene.rows.length, Math.ceil((scene.topPx + scene.heightPx - AXIS_PX) / ROW_PX))];
}

function xOf(scene: Scene, atS: number): number {
  const share = (Math.min(atS, scene.nowS) - scene.fromS) / (scene.toS - scene.fromS);
  return Math.max(-2, Math.min(scene.widthPx + 2, share * scene.widthPx));
}

/** Draw a scene; returns how many bars were drawn. */
export function draw(canvas: HTMLCanvasElement, scene: Scene): number {
  const context = canvas.getContext("2d");
  if (!context) return 0;
  const scale = devicePixelRatio;
  canvas.width = Math.round(scene.widthPx * scale);
  canvas.height = Math.round(scene.heightPx * scale);
  canvas.style.width = `${scene.widthPx}px`;
  canvas.style.height = `${scene.heightPx}px`;
  context.scale(scale, scale);
  const colours = Object.fromEntries(["good", "bad", "warn", "busy", "quiet", "line", "ink", "panel"].map((name) => [name, colour(name)]));
  const paint = painter(context, colours);
  const [first, end] = inView(scene);
  drawLines(context, scene, colours["line"] ?? "gray");
  let drawn = 0;
  context.save();
  context.beginPath();
  context.rect(0, AXIS_PX, scene.widthPx, scene.heightPx);
  context.clip();
  for (let index = first; index < end; index += 1) {
    const row = scene.rows[index];
    if (row) drawn += drawRow(paint, scene, row, AXIS_PX + index * ROW_PX - scene.topPx);
  }
  context.restore();
  drawAxis(context, scene, colours);
  return drawn;
}

type Paint = (x: number, y: number, width: number, height: number, tone: string, hatched: boolean, isChosen?: boolean) => void;

function painter(context: CanvasRenderingContext2D, colours: Record<string, string>): Paint {
  const hatches = new Map<string, CanvasPattern | string>();
  const fillOf = (tone: string, hatched: boolean): CanvasPattern | string => {
    const plain = colours[tone] ?? "gray";
    if (!hatched) return plain;
    let made = hatches.get(tone);
    if (made === undefined) {
      made = hatch(plain, colours["panel"] ?? "white") ?? plain;
      hatches.set(tone, made);
    }
    return made;
  };
  return (x, y, width, height, tone, hatched, isChosen = false) => {
    context.fillStyle = fillOf(tone, hatched);
    context.fillRect(x, y, width, height);
    if (!isChosen) return;
    context.strokeStyle = colours["ink"] ?? "black";
    context.lineWidth = 2;
    context.strokeRect(x, y, width, height);
  };
}

/** Return a pattern of slanted lines. */
function hatch(front: string, back: string): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = HATCH_PX;
  const context = tile.getContext("2d");
  if (!context) return null;
  context.fillStyle = back;
  context.fillRect(0, 0, HATCH_PX, HATCH_PX);
  context.strokeStyle = front;
  context.lineWidth = 2.5;
  for (const shift of [-HATCH_PX, 0, HATCH_PX]) {
    context.moveTo(shift, HATCH_PX);
    context.lineTo(shift + HATCH_PX, 0);
  }
  context.stroke();
  return context.createPattern(tile, "repeat");
}

function drawRow(paint: Paint, scene: Scene, row: Row, top: number): number {
  const isChosen = scene.chosen?.instance === row.instance.id;
  paint(0, top + ROW_PX - 1, scene.widthPx, 1, "line", false);
  for (const band of row.bands) {
    if (band.toS < scene.fromS || band.fromS > scene.toS) continue;
    const { tone, hatched } = BAND_OF.get(band.state) ?? { tone: "quiet", hatched: false };
    const x = xOf(scene, band.fromS);
    paint(x, top + 2, Math.max(LEAST_PX, xOf(scene, band.toS) - x), BAND_PX, tone, hatched, isChosen && !scene.chosen?.attempt);
  }
  let drawn = 0;
  for (const bar of row.bars) {
    if (bar.toS < scene.fromS || bar.fromS > scene.toS) continue;
    const { tone, hatched } = BAR_OF.get(wordOf(bar)) ?? { tone: "quiet", hatched: false };
    const [x, y, width, height] = boxOf(scene, bar, top);
    paint(x, y, width, height, tone, hatched, isChosen && scene.chosen?.attempt === bar.attempt.attempt);
    drawn += 1;
  }
  return drawn;
}

function boxOf(scene: Scene, bar: Bar, top: number): [number, number, number, number] {
  const x = xOf(scene, bar.fromS);
  // A pixel is left free to the right and above: neighbours are told apart.
  const width = Math.max(LEAST_PX, xOf(scene, bar.toS) - x - 1);
  const height = Math.max(LEAST_PX, bar.height * LANES_PX - 1);
  return [x, top + LANES_TOP_PX + LANES_PX * (1 - bar.bottom - bar.height), width, height];
}

/** Return how an attempt is, in a word. */
export function wordOf({ attempt }: Bar): string {
  if (attempt.cause === "leak") return "leak";
  return attempt.outcome ?? (attempt.to === null ? "running" : "unknown");
}

/** Return when there are ticks, in seconds since the epoch, and how far they are apart. */
function ticks(scene: Scene): { step: number; at: readonly number[] } {
  const leastS = ((scene.toS - scene.fromS) / scene.widthPx) * TICK_PX;
  const step = STEPS_S.find((each) => each >= leastS) ?? 86_400;
  const zoneS = new Date(scene.fromS * 1000).getTimezoneOffset() * 60;
  const at: number[] = [];
  for (let each = Math.ceil((scene.fromS - zoneS) / step) * step + zoneS; each < scene.toS; each += step) at.push(each);
  return { step, at };
}

function pixelOf(scene: Scene, atS: number): number {
  return ((atS - scene.fromS) / (scene.toS - scene.fromS)) * scene.widthPx;
}

function drawLines(context: CanvasRenderingContext2D, scene: Scene, line: string): void {
  context.fillStyle = line;
  for (const at of ticks(scene).at) context.fillRect(pixelOf(scene, at), AXIS_PX, 1, scene.heightPx);
}

function drawAxis(context: CanvasRenderingContext2D, scene: Scene, colours: Record<string, string>): void {
  const { step, at } = ticks(scene);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const each of at) {
    const x = pixelOf(scene, each);
    context.fillStyle = colours["line"] ?? "gray";
    context.fillRect(x, AXIS_PX - 6, 1, 6);
    context.fillStyle = colours["quiet"] ?? "gray";
    context.fillText(tickText(each, step), x + 3, AXIS_PX / 2);
  }
  const now = pixelOf(scene, scene.nowS);
  if (now < 0 || now > scene.widthPx) return;
  context.fillStyle = colours["bad"] ?? "red";
  context.fillRect(now, 0, 1.5, scene.heightPx);
}

function tickText(atS: number, stepS: number): string {
  const at = new Date(atS * 1000);
  const two = (part: number): string => String(part).padStart(2, "0");
  const day = `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  if (stepS >= 86_400) return day;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (stepS >= 7200) return `${day} ${time}`;
  return stepS < 60 ? `${time}:${two(at.getSeconds())}` : time;
}

/** Return what is at a point of the canvas, in pixels; null for nothing. */
export function spotAt(scene: Scene, x: number, y: number): Spot | null {
  const index = Math.floor((y - AXIS_PX + scene.topPx) / ROW_PX);
  const row = y < AXIS_PX ? undefined : scene.rows[index];
  if (!row) return null;
  const top = AXIS_PX + index * ROW_PX - scene.topPx;
  // Who was drawn last lies above.
  const found = row.bars.findLast((bar) => {
    const [left, above, width, height] = boxOf(scene, bar, top);
    return x >= left - 1 && x <= left + width + 1 && y >= above && y <= above + height + 1;
  });
  return { instance: row.instance.id, attempt: found?.attempt.attempt ?? null };
}
