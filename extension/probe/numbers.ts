/** Bytes as people read them. */

import type { Range } from "./messages";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

export function inBytes(bytes: number): string {
  let step = 0;
  while (bytes / 1024 ** step >= 1000 && step < UNITS.length - 1) step += 1;
  return `${digits(bytes / 1024 ** step, step)} ${UNITS[step]}`;
}

/** One number where both ends read the same. */
export function inRange({ low, high }: Range): string {
  const [from, to] = [inBytes(low), inBytes(high)];
  if (from === to) return from;
  const [number, unit] = from.split(" ");
  return to.endsWith(` ${unit}`) ? `${number}–${to}` : `${from}–${to}`;
}

function digits(value: number, step: number): string {
  if (step === 0 || value >= 100) return Math.round(value).toString();
  return value.toFixed(value >= 10 ? 1 : 2);
}
