import { readFileSync } from 'node:fs';
import { parseDotenv } from '../../scripts/stack/env.ts';

/**
 * The variables of the stack that the tests run against, by name.
 * @throws Error when WARREN_STACK_ENV is not set, or the stack did not write the variable.
 */
export function stackEnvironment(): (name: string) => string {
  const file = process.env['WARREN_STACK_ENV'];
  if (file === undefined) throw new Error('WARREN_STACK_ENV must name the .stack/env of a running stack');
  const variables = parseDotenv(readFileSync(file, 'utf8'));
  return (name) => {
    const value = variables[name];
    if (value === undefined) throw new Error(`${file} has no ${name}`);
    return value;
  };
}
