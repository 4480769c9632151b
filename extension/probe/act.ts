/** What the buttons on the probe's page do, other than ask for figures. */

import * as vscode from "vscode";
import type { Snapshot } from "../protocol";
import { openLine } from "../report/open";
import type { Server } from "../server";
import { changedSince } from "./files";
import { insertMissing } from "./insert";
import type { FromPage, Planned, PlanPlace } from "./page_messages";
import { applyPlan, planAt } from "./plan";
import { isNamed, type Shown } from "./shown";
import type { Model } from "./targets";

/** What the page shows when a button is pressed. */
export interface Pressed {
  readonly panel: vscode.WebviewPanel;
  readonly server: Server;
  readonly model: Model | undefined;
  readonly shown: Shown | undefined;
  readonly recorded: Snapshot | undefined;
  /** The command that does the same in a terminal. */
  readonly command: string | undefined;
  readonly say: (about: string, words: string) => void;
}

/** What became of a plan, where the button was one of a plan's. */
export async function act(message: FromPage, pressed: Pressed): Promise<Planned | undefined> {
  const { panel, shown, model, recorded, command, say } = pressed;
  const planned = shown?.planned?.answer;
  switch (message.kind) {
    case "open":
      if (isNamed(message.path, message.line, shown, model, recorded))
        await openLine(panel, vscode.Uri.file(message.path).toString(), message.line);
      return undefined;
    case "openPlanned":
      await openLine(panel, planned?.uri, planned?.line ?? undefined);
      return undefined;
    case "copyPlanned":
      return copy("planned", planned?.code, say);
    case "copyCommand":
      return copy("command", command, say);
    case "insert":
      return insert(message.failure, pressed);
    case "apply":
      return apply(message, pressed);
  }
  return undefined;
}

async function copy(about: string, text: string | undefined, say: Pressed["say"]): Promise<undefined> {
  if (!text) return;
  await vscode.env.clipboard.writeText(text);
  say(about, "Copied.");
}

async function insert(index: number, { panel, shown, model, say }: Pressed): Promise<undefined> {
  const failure = shown?.answer.failures[index];
  if (failure && model) say(`failure-${index}`, await insertMissing(failure, model, panel));
}

async function apply(place: PlanPlace, { panel, server, shown, model, say }: Pressed): Promise<Planned | undefined> {
  const plan = shown && planAt(place, shown);
  if (!plan || !model) return undefined;
  const about = `apply-${place.from}-${place.index}`;
  const [outdated] = changedSince(shown.texts);
  if (outdated) {
    say(about, `${outdated} has changed since: probe again, then apply.`);
    return undefined;
  }
  try {
    return { from: place.from, index: place.index, answer: await applyPlan(server, model, plan, panel) };
  } catch (error) {
    say(about, error instanceof Error ? error.message : String(error));
    return undefined;
  }
}
