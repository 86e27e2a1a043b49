import { type Evidence, type Finding, isWarren, patchSteps } from '../evidence.ts';

const MARK = 'warren-owner';

/** Invariant 14: the cluster's mark is turned by sweep alone, testing the one that stood there. */
export function marks(evidence: Evidence): Finding[] {
  return evidence.audit.flatMap(({ resource, name, user, code, verb, request }) => {
    if (resource !== 'configmaps' || name !== MARK || code >= 300 || !isWarren(user)) return [];
    const tested = patchSteps(request)?.some(({ op, path }) => op === 'test' && path === '/data/nonce') ?? false;
    if (user === 'warren-sweep' && verb === 'patch' && tested) return [];
    return [
      {
        rule: 'mark',
        message: `the cluster's mark was written by ${user} (${verb})${tested ? '' : ' without a test'}`,
      },
    ];
  });
}
