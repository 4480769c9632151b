/** Asks the server to probe, to measure and for advice, and hears how far it is. */

import type * as vscode from "vscode";
import {
  ADVISE,
  type AdviseAnswer,
  type AdviseParams,
  PROBE,
  type ProbeAnswer,
  type ProbeParams,
  type ProbeProgress,
} from "../protocol";
import type { Server } from "../server";
import { type Knobs, variantOf } from "./knobs";
import type { Variant } from "./messages";
import type { Device, Measurement } from "./page_messages";
import type { Model } from "./targets";

let asked = 0;

type Hear = (progress: ProbeProgress) => void;

export interface Question {
  readonly server: Server;
  readonly model: Model;
  readonly knobs: Knobs;
  readonly hear: Hear;
  readonly cancel: vscode.CancellationToken;
}

/** `on`: measure on that device too; else nothing is measured. */
export function askProbe(question: Question, variants: readonly Variant[], on?: Device): Promise<ProbeAnswer> {
  const { server, model, knobs, cancel } = question;
  const { target, folder } = model;
  const how = on ? ({ mode: "auto", device: on } as const) : {};
  return heard(question, (token) => {
    const params = { token, target, folder: folder.fsPath, variants, gpu: knobs.gpu, ...how };
    return server.request<ProbeParams, ProbeAnswer>(PROBE, params, cancel);
  });
}

export function askAdvice(question: Question): Promise<AdviseAnswer> {
  const { server, model, knobs, cancel } = question;
  return heard(question, (token) => {
    const { target, folder } = model;
    const params = { token, target, folder: folder.fsPath, variant: variantOf(knobs), gpu: knobs.gpu };
    return server.request<AdviseParams, AdviseAnswer>(ADVISE, params, cancel);
  });
}

/** The step as it is on this machine: on its GPU, or on the CPU where there is none. */
export async function askMeasurement(question: Question): Promise<Measurement | string> {
  let why: string | null = null;
  for (const device of ["cuda", "cpu"] as const) {
    const { variants, failures, unmeasured } = await askProbe(question, [variantOf(question.knobs)], device);
    const measured = variants.find(({ kind }) => kind === "measured");
    const estimated = variants.find(({ kind }) => kind === "estimated") ?? null;
    if (measured) return { device, measured, estimated, knobs: question.knobs, notOnGpu: why };
    why = failures[0]?.message ?? unmeasured ?? "the machine has no memory left for it";
  }
  return why ?? "";
}

async function heard<T>({ server, hear }: Question, ask: (token: string) => Promise<T>): Promise<T> {
  asked += 1;
  const token = `probe-${asked}`;
  const listening = server.onProbeProgress((progress) => {
    if (progress.token === token) hear(progress);
  });
  try {
    return await ask(token);
  } finally {
    listening.dispose();
  }
}

/** An answer with what another one adds: other variants of the same. */
export function joined(first: ProbeAnswer, more: ProbeAnswer): ProbeAnswer {
  return {
    ...first,
    seconds: first.seconds + more.seconds,
    variants: [...first.variants, ...more.variants],
    plans: [...first.plans, ...more.plans],
    failures: [...first.failures, ...more.failures],
    cards: first.cards.map((card) => {
      const other = more.cards.find(({ name }) => name === card.name);
      return { ...card, verdicts: [...card.verdicts, ...(other?.verdicts ?? [])] };
    }),
  };
}

/** Whether the variant that the user asked for came out. */
export function hasAsked({ variants }: ProbeAnswer, knobs: Knobs): boolean {
  return variants[0]?.name === variantOf(knobs).name;
}
