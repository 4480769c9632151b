/** Bytes as people read them. */

import type { Range } from "./messages";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

export function inBytes(bytes: number): string {
  const step = stepOf(bytes);
  return `${digits(bytes / 1024 ** step, step)} ${UNITS[step]}`;
}

function stepOf(bytes: number): number {
  let step = 0;
  while (bytes / 1024 ** step >= 1000 && step < UNITS.length - 1) step += 1;
  return step;
}

/** In one unit; one number where both ends read the same. */
export function inRange({ low, high }: Range): string {
  const step = stepOf(high);
  const [from, to] = [low, high].map((bytes) => digits(bytes / 1024 ** step, step));
  return from === to ? `${to} ${UNITS[step]}` : `${from}–${to} ${UNITS[step]}`;
}

function digits(value: number, step: number): string {
  if (step === 0 || value >= 100) return Math.round(value).toString();
  return value.toFixed(value >= 10 ? 1 : 2);
}
