/** Keeps one language server running: starts it, starts it anew when it dies, gives up when it dies too often. */

import * as vscode from "vscode";
import { DidChangeConfigurationNotification, type LanguageClient } from "vscode-languageclient/node";
import type { Choice } from "./choice";
import { createClient } from "./client";
import { findLaunch, type Launch, type NoLaunch } from "./launch";
import { notify } from "./notify";
import { endProcess, type ServerProcess, startProcess } from "./process";
import type { ProbeProgress } from "./protocol";
import { forServer, readSettings } from "./settings";
import type { Status } from "./status";

interface Run {
  readonly launch: Launch;
  client?: LanguageClient;
  process?: ServerProcess;
  /** We asked it to end, so its end is no death. */
  dismissed: boolean;
}

const MOST_DEATHS = 4;
const WITHIN_MINUTES = 3;
const NOT_RUNNING = "Remat's server is not running.";

/** There is no server to ask; the message says why. */
export class NotRunning extends Error {}

export class Server {
  private run: Run | undefined;
  private found: Launch | NoLaunch | undefined;
  private deaths: number[] = [];
  private last: Promise<void> = Promise.resolve();
  private first: Promise<void> | undefined;
  private begun: () => void = () => undefined;
  private readonly running = new vscode.EventEmitter<void>();
  /** Each time that one has begun to answer. */
  readonly onRunning = this.running.event;
  private readonly hearers = new Set<(progress: ProbeProgress) => void>();
  /** Why no server runs, in a sentence. */
  private why = NOT_RUNNING;

  constructor(
    private readonly root: string,
    private readonly log: vscode.LogOutputChannel,
    private readonly status: Status,
  ) {}

  /** Whether anything needed the server yet: before that nothing starts it anew. */
  get wanted(): boolean {
    return this.first !== undefined;
  }

  /** Settles after the first start, however it went. */
  readonly hasBegun = new Promise<void>((resolve) => {
    this.begun = resolve;
  });

  /** Starts it, if nothing has yet. */
  start(): Promise<void> {
    this.first ??= this.inTurn(() => this.begin()).then(this.begun);
    return this.first;
  }

  /** What it answers; it is started first if need be. Rejects with a sentence where there is no server to ask. */
  async request<P, R>(method: string, params: P, token: vscode.CancellationToken): Promise<R> {
    await this.start();
    await this.last; // a restart may be under way
    const client = this.run?.client;
    if (!client?.isRunning()) throw new NotRunning(this.why);
    return client.sendRequest<R>(method, params, token);
  }

  /** Calls `hear` with what any probe is doing, until disposed. */
  onProbeProgress(hear: (progress: ProbeProgress) => void): { dispose(): void } {
    this.hearers.add(hear);
    return { dispose: () => this.hearers.delete(hear) };
  }

  stop(): Promise<void> {
    return this.inTurn(() => this.discard());
  }

  restart(why: string): Promise<void> {
    const last = this.inTurn(async () => {
      this.log.info(`restarts: ${why}`);
      this.deaths = [];
      await this.discard();
      await this.begin();
    });
    this.first = last.then(this.begun);
    return last;
  }

  /** Restarts only where the choice of interpreters really came out differently. */
  async reconsider(): Promise<void> {
    if (!this.found) return;
    const before = fingerprint(this.found);
    const now = fingerprint(await findLaunch(this.root, this.log));
    if (before !== now) await this.restart("another interpreter is chosen");
  }

  async settingsChanged(): Promise<void> {
    const settings = forServer(readSettings());
    if (!this.run?.client?.isRunning()) return;
    await this.run.client.sendNotification(DidChangeConfigurationNotification.type, { settings });
  }

  facts(): { state: string; launch: Launch | undefined; pid: number | undefined; choice: Choice | undefined } {
    return {
      state: this.run?.client?.isRunning() ? "running" : "not running",
      launch: this.run?.launch,
      pid: this.run?.process?.child.pid,
      choice: this.found?.choice,
    };
  }

  /** One step after the other: a restart asked for during a start waits for it. */
  private inTurn(step: () => Promise<void>): Promise<void> {
    this.last = this.last.then(step).catch((error) => this.fail(`Remat's client failed: ${String(error)}`));
    return this.last;
  }

  private async begin(): Promise<void> {
    if (!readSettings().enable) {
      this.why = "Remat is turned off by the setting remat.enable.";
      return this.status.show({ kind: "off" });
    }
    this.status.show({ kind: "starting" });
    const launch = await findLaunch(this.root, this.log);
    this.found = launch;
    for (const line of launch.choice.tried) this.log.info(line);
    for (const complaint of launch.choice.complaints) void notify(this.log, "warning", complaint);
    if ("problem" in launch) return this.fail(launch.problem);
    await this.connect({ launch, dismissed: false });
  }

  private async connect(run: Run): Promise<void> {
    const { launch } = run;
    this.run = run;
    this.log.info(`starts ${[launch.command, ...launch.args].join(" ")}`);
    const start = async () => {
      const process = startProcess(launch, this.root);
      run.process = process;
      this.log.info(`the server is process ${process.child.pid}`);
      void process.ended.then((end) => this.ended(run, end));
      return process.child;
    };
    run.client = createClient(start, launch.choice, this.log, (progress) => {
      for (const hear of this.hearers) hear(progress);
    });
    try {
      await run.client.start();
      this.why = NOT_RUNNING;
      this.running.fire();
      this.status.show({ kind: "running", detail: launch.description });
    } catch (error) {
      this.log.error(`the server did not answer: ${String(error)}`);
      run.process?.child.kill(); // its end is what counts as a death
    }
  }

  private ended(run: Run, end: string): void {
    if (run.dismissed) return;
    this.log.error(`the server ${end}`);
    const now = Date.now();
    this.deaths = [...this.deaths.filter((at) => at > now - WITHIN_MINUTES * 60_000), now];
    if (this.deaths.length <= MOST_DEATHS) {
      void this.inTurn(async () => {
        await this.discard();
        await this.begin();
      });
      return;
    }
    void this.stop();
    const often = `Remat's server ended ${this.deaths.length} times within ${WITHIN_MINUTES} minutes and is not started again.`;
    this.fail(`${often} The last time it ${end} Once that is repaired, run "Remat: Restart Server".`);
  }

  private async discard(): Promise<void> {
    const run = this.run;
    if (!run) return;
    run.dismissed = true;
    this.run = undefined;
    await run.client?.dispose().catch((error) => this.log.debug(`the client had stopped already: ${String(error)}`));
    if (run.process) await endProcess(run.process);
  }

  private fail(detail: string): void {
    this.why = detail;
    this.status.show({ kind: "failed", detail });
    void notify(this.log, "error", detail);
  }
}

function fingerprint({ choice }: Launch | NoLaunch): string {
  return JSON.stringify([choice.server?.executable, [...choice.interpreters]]);
}
