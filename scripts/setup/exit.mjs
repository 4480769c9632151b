/** Ends a command with a message for people, not with a stack, where the cause is known. */

import { Failed } from "./run.mjs";

export async function orExit(main) {
  try {
    await main();
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    console.error(`\n${error.message}`);
    process.exit(1);
  }
}
