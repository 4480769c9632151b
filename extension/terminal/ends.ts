/** The beginning and the end of a text that arrives piece by piece, in bounded memory. */

export interface Room {
  readonly head: number;
  readonly tail: number;
}

/** The launcher's banner and the first steps; and an end that holds the tracebacks of some hundred ranks. */
export const ROOM: Room = { head: 128 * 1024, tail: 2 * 1024 * 1024 };

/** Pieces are joined up to this size: a program may print one letter at a time. */
const JOINED = 16 * 1024;

export class Ends {
  private head = "";
  private tail: string[] = [];
  private tailLength = 0;
  private fresh: string[] = [];
  private freshLength = 0;
  private dropped = 0;

  constructor(private readonly room: Room = ROOM) {}

  add(piece: string): void {
    const toHead = Math.min(piece.length, this.room.head - this.head.length);
    if (toHead > 0) this.head += piece.slice(0, toHead);
    if (toHead >= piece.length) return;
    this.fresh.push(piece.slice(Math.max(toHead, 0)));
    this.freshLength += piece.length - Math.max(toHead, 0);
    if (this.freshLength >= JOINED) this.join();
  }

  /** All of it, or its ends as whole lines with a line between them that says how much is missing. */
  text(): string {
    this.join();
    const tail = this.tail.join("");
    if (this.dropped === 0) return this.head + tail;
    const headEnd = this.head.lastIndexOf("\n") + 1 || this.head.length;
    const tailStart = startOfLine(tail);
    const left = this.dropped + (this.head.length - headEnd) + tailStart;
    return joined(this.head.slice(0, headEnd), left, tail.slice(tailStart));
  }

  private join(): void {
    const joined = this.fresh.join("").slice(-this.room.tail);
    this.dropped += this.freshLength - joined.length;
    this.tail.push(joined);
    this.tailLength += joined.length;
    this.fresh = [];
    this.freshLength = 0;
    while (this.tail[0] !== undefined && this.tailLength - this.tail[0].length >= this.room.tail) {
      this.tailLength -= this.tail[0].length;
      this.dropped += this.tail[0].length;
      this.tail.shift();
    }
  }
}

/** `text` itself, or where it has no room its two ends. */
export function withinRoom(text: string, room: Room): string {
  if (text.length <= room.head + room.tail) return text;
  const headEnd = text.lastIndexOf("\n", room.head) + 1 || room.head;
  const cut = text.length - room.tail;
  const tailStart = cut + startOfLine(text.slice(cut));
  return joined(text.slice(0, headEnd), tailStart - headEnd, text.slice(tailStart));
}

/** Where the first whole line starts; 0 if there is none. */
function startOfLine(text: string): number {
  return text.indexOf("\n") + 1;
}

/** How much of a kept text is missing, in words; nothing if it is whole. */
export function leftOut(text: string): string | undefined {
  return LEFT_OUT.exec(text)?.[1];
}

const LEFT_OUT = /^\[Remat left out ([\d,]+ characters) here\]$/m;

function joined(head: string, missing: number, tail: string): string {
  const note = `[Remat left out ${missing.toLocaleString("en")} characters here]`;
  return `${head}${head.endsWith("\n") ? "" : "\n"}${note}\n${tail}`;
}
