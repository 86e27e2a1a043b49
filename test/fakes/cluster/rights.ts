import type { ClusterPort } from '../../../src/lib/ports.ts';

type Call = keyof ClusterPort;

/** What each identity of deploy/rbac.yaml calls, and may call: test/deploy/rbac.test.ts holds it against code and roles. */
export const CALLS: Readonly<Record<'step' | 'recycle' | 'sweep', readonly Call[]>> = {
  step: [
    'applyShard',
    'deletePod',
    'failedCreate',
    'getClaim',
    'getPod',
    'getStatefulSet',
    'growReplicas',
    'identity',
    'labelClaim',
    'openGate',
    'readToken',
    'writeToken',
  ],
  recycle: [
    'deleteClaim',
    'deletePod',
    'getClaim',
    'getPod',
    'getVolume',
    'identity',
    'readToken',
    'releaseVolume',
    'writeToken',
  ],
  sweep: ['identity', 'writeMark'],
};
