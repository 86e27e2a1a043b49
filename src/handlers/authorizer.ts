import type { AuthorizerContext } from '../lib/api/caller.ts';
import { isObject } from '../lib/api/plain.ts';
import { authorize } from '../lib/api/token.ts';
import { tokenRules } from '../lib/wiring-authorizer.ts';

const rules = tokenRules();

/**
 * Lets every request through with what it found out: an actor, or why there is none. The functions refuse what has no
 * actor, with a problem that says why (docs/decisions/0006-authorizer-context.md).
 */
export async function handler(event: unknown): Promise<{ isAuthorized: true; context: AuthorizerContext }> {
  const headers = isObject(event) && isObject(event['headers']) ? event['headers'] : {};
  const [, header] = Object.entries(headers).find(([name]) => name.toLowerCase() === 'authorization') ?? [];
  const context = await authorize(typeof header === 'string' ? header : undefined, rules, new Date());
  return { isAuthorized: true, context };
}
