/** The comment `# remat: probe(…)` that a failure asks for. */

import type { Failure } from "./messages";

const COMMENT = /# remat: probe\(.*\)/;

export function commentOf({ missing }: Failure): string | undefined {
  return missing ? COMMENT.exec(missing.how)?.[0] : undefined;
}
