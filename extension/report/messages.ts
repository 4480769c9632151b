/** What the report's page and the extension tell each other. The page names things by their place in the report. */

import type { Diagnosis } from "../protocol";

export type ToPage =
  | { readonly kind: "busy"; readonly name: string }
  | { readonly kind: "failed"; readonly name: string; readonly why: string }
  | {
      readonly kind: "report";
      /** Which report: what a page tells of another one is of no account. */
      readonly number: number;
      readonly diagnosis: Diagnosis;
      readonly mayRun: boolean;
      /** How much of the log was not kept, in words. */
      readonly leftOut: string | null;
    }
  | {
      readonly kind: "said";
      readonly report: number;
      readonly about: string;
      readonly words: string;
      readonly next?: Next;
    };

/** What the button of `about` does from now on: it saves, or there is none any more. */
export type Next = "save" | "none";

/** A button or a link of a report. */
export type Pressed =
  | { readonly kind: "openPlace" }
  | { readonly kind: "openLogLink"; readonly line: number; readonly link: number }
  | { readonly kind: "openRepair"; readonly repair: number }
  | { readonly kind: "applyRepair"; readonly repair: number }
  | { readonly kind: "saveRepair"; readonly repair: number }
  | { readonly kind: "runVerify" }
  | { readonly kind: "copyVerify" }
  | { readonly kind: "copyHow"; readonly missing: number }
  | { readonly kind: "copyMarkdown" }
  | { readonly kind: "permit"; readonly evidence: number }
  | { readonly kind: "permitAll" }
  | { readonly kind: "openDocs" };

export type FromPage =
  | { readonly kind: "ready" }
  | { readonly kind: "restart" }
  | { readonly kind: "showLogs" }
  | (Pressed & { readonly report: number });
