import type { Evidence } from './evidence.ts';
import type { Story } from './story.ts';

/** Rewrites one entry of history (null takes it out) and seals the chain again, as somebody who can write the table could. */
export function rewrite(tale: Story, action: string, subject: string, after: Record<string, unknown> | null): Evidence {
  const at = tale.history.findIndex((row) => row.action === action && row.subject === subject);
  const row = tale.history[at];
  if (row === undefined) throw new Error(`no ${action} of ${subject}`);
  if (after === null) tale.history.splice(at, 1);
  else tale.history[at] = { ...row, after: { ...row.after, ...after } };
  tale.seal();
  return tale.evidence();
}
