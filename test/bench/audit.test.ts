import { describe, expect, it } from 'vitest';
import { type Audited, podStarts, podStops, writesBy } from '../../scripts/bench/measure/audit.ts';

const POD = 'qwenpaw-shard-00-3';

function request(verb: string, answered: number, more: Partial<Audited> = {}): Audited {
  const user = 'warren-step';
  return {
    verb,
    user,
    resource: 'pods',
    subresource: '',
    name: POD,
    received: answered - 1,
    answered,
    text: '',
    ...more,
  };
}

const gate = (answered: number) =>
  request('patch', answered, { text: '{"op":"remove","path":"/spec/schedulingGates"}' });
const status = (answered: number, isReady: boolean) =>
  request('patch', answered, {
    subresource: 'status',
    text: `"type":"Ready","status":"${isReady ? 'True' : 'False'}"`,
  });

describe('podStarts', () => {
  it('lasts from the answer to the gate’s PATCH until the pod is first made Ready', () => {
    const starts = podStarts([gate(100), status(120, false), status(150, true), status(170, true)]);
    expect(starts).toEqual(new Map([[POD, { began: 100, ended: 150 }]]));
  });

  it('is not begun by a label, and has no end before Ready', () => {
    expect(podStarts([request('patch', 90, { text: '/metadata/labels' })])).toEqual(new Map());
    expect(podStarts([gate(100)]).get(POD)?.ended).toBeNaN();
  });
});

describe('podStops', () => {
  it('lasts from the first DELETE, not the kubelet’s, until the pod is made again', () => {
    const stops = podStops([
      request('delete', 100),
      request('delete', 130, { user: 'stack-double' }),
      request('create', 140, { user: 'system:serviceaccount:kube-system:statefulset-controller' }),
      request('create', 900, { subresource: 'binding' }),
    ]);
    expect(stops).toEqual(new Map([[POD, { began: 100, ended: 140 }]]));
  });

  it('does not take a claim’s DELETE for a pod’s', () => {
    expect(podStops([request('delete', 100, { resource: 'persistentvolumeclaims' })])).toEqual(new Map());
  });
});

describe('writesBy', () => {
  it('counts what was not a read, by a part of the name', () => {
    const user = 'system:kube-controller-manager';
    const events = [request('get', 1, { user }), request('patch', 2, { user }), request('patch', 3)];
    expect(writesBy(events, 'controller-manager')).toBe(1);
  });
});
