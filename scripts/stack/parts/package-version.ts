// Versions of npm packages that the stack runs.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { CHECKOUT } from '../layout.ts';

const requireHere = createRequire(import.meta.url);

/** Version of an installed package. */
export function packageVersion(name: string): string {
  return (requireHere(join(CHECKOUT, 'node_modules', name, 'package.json')) as { version: string }).version;
}
