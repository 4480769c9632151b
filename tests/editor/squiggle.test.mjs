import { ok } from "node:assert/strict";
import { journey } from "./harness/journey.mjs";
import { AFTER_ASTRAL } from "./harness/programs.mjs";

journey(
  "the call is underlined at its own column after astral characters",
  { files: { "train.py": AFTER_ASTRAL } },
  async (editor) => {
    await editor.open("train.py");
    await editor.squigglesBecome(1);
    const drawn = await editor.squiggles().boundingBox();
    const call = await editor.placeOf("checkpoint(first");
    const line = await editor.placeOf("return checkpoint(first, x)");
    await editor.shot("underlined");
    ok(Math.abs(drawn.x - call.x) < 2, `underlined from ${drawn.x}, but the call starts at ${call.x}`);
    ok(drawn.x + drawn.width <= line.right + 2, "underlined beyond the end of the call");
  },
);
