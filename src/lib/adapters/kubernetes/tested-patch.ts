import { OutsideError } from '../../errors.ts';
import { type CallName, outsideError, statusOf } from './errors.ts';
import type { PatchOperation } from './json-patch.ts';

export interface TestedPatch {
  readonly call: CallName;
  /** Ways to write the same thing, in order of likelihood: a map that may or may not exist needs two. */
  readonly attempts: readonly (readonly PatchOperation[])[];
  readonly patch: (operations: readonly PatchOperation[]) => Promise<unknown>;
  /** Reads the object afresh: does what the patch tests still hold? Null when the object is gone. */
  readonly holds: () => Promise<boolean | null>;
}

/** What the API server says of a patch that does not fit the object; anything else of a 422 is a refusal's own words. */
const DOES_NOT_FIT = 'the server rejected our request due to an error in our request';

/** The API server gives up after five races of its own; that says nothing about our tests. */
const CONFLICTS_MAX = 3;

/**
 * Sends a JSON patch with `test` operations. The API server answers 422 both for a failed test and for a refused
 * object, so the object is read again: tests that do not hold → `refused`; tests that do → the refusal was
 * admission's or validation's. @throws OutsideError, not unreachable, with the server's message for the latter.
 */
export async function testedPatch(request: TestedPatch): Promise<'done' | 'refused' | 'gone'> {
  const refusals: OutsideError[] = [];
  for (const operations of request.attempts) {
    const outcome = await attempt(request, operations);
    if (outcome === 'done' || outcome === 'gone') return outcome;
    refusals.push(outsideError(request.call, outcome.error));
    const holds = await request.holds();
    if (holds === null) return 'gone';
    if (!holds) return 'refused';
  }
  throw refusals.find(({ message }) => !message.includes(DOES_NOT_FIT)) ?? refusals.at(-1);
}

async function attempt(
  request: TestedPatch,
  operations: readonly PatchOperation[],
): Promise<'done' | 'gone' | { error: unknown }> {
  for (let conflicts = 0; ; conflicts += 1) {
    try {
      await request.patch(operations);
      return 'done';
    } catch (error) {
      const status = statusOf(error);
      if (status === 404) return 'gone';
      if (status === 422) return { error };
      const outside = outsideError(request.call, error);
      if (status !== 409) throw outside;
      if (conflicts === CONFLICTS_MAX) {
        throw new OutsideError('kubernetes', outside.message, { unreachable: true, status, cause: error });
      }
    }
  }
}
