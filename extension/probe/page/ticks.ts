/** Ticks that are round in binary units. */

export function binaryTicks(highest: number, about: number): number[] {
  const unit = 1024 ** Math.floor(Math.log(Math.max(highest, 1)) / Math.log(1024));
  const rough = highest / unit / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  return Array.from({ length: Math.floor(highest / unit / step) + 1 }, (_, index) => index * step * unit);
}
