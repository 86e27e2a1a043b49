import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vite';

const folder = dirname(fileURLToPath(import.meta.url));
export const root = dirname(dirname(folder));

/** A fault put into Warren on purpose, to see that it would be found. */
export interface Mutant {
  readonly name: string;
  /** Which rule it breaks, and what would come of it. */
  readonly why: string;
  readonly edits: readonly Edit[];
}

interface Edit {
  /** From the repository's root. */
  readonly file: string;
  /** Occurs exactly once in the file. */
  readonly find: string;
  readonly replace: string;
}

/** All mutants, one a file. @throws SyntaxError. */
export const mutants: readonly Mutant[] = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .sort()
  .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));

export const sourceOf = ({ file }: Edit): string => readFileSync(join(root, file), 'utf8');

/** Applies an edit to its file's text. @throws Error when it no longer fits. */
export function apply(mutant: Mutant, edit: Edit, text: string): string {
  const times = text.split(edit.find).length - 1;
  if (times !== 1) throw new Error(`mutant ${mutant.name}: \`${edit.find}\` occurs ${times} times in ${edit.file}`);
  return text.replace(edit.find, () => edit.replace);
}

/** Vite sees the mutant's text instead of the file's. */
export const mutation = (mutant: Mutant): Plugin => ({
  name: `mutant ${mutant.name}`,
  enforce: 'pre',
  transform(text, id) {
    const edits = mutant.edits.filter(({ file }) => id === join(root, file));
    if (edits.length === 0) return null;
    return edits.reduce((changed, edit) => apply(mutant, edit, changed), text);
  },
});
