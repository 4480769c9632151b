/** What shell integration writes into a terminal's output for the editor, and no program printed. */

/** `ESC ] 633 ; … BEL`, and its older relative 133; ended by BEL or ESC \. The last may be cut off. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const MARKS = /\u001b\](?:633|133);[^\u0007\u001b]*(?:\u0007|\u001b\\|$)/g;

export function withoutMarks(output: string): string {
  return output.replace(MARKS, "");
}
