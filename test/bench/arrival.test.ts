import { describe, expect, it } from 'vitest';
import { hasArrived } from '../../scripts/bench/life/bare.ts';

const running = { uid: 'a', gated: false, ready: true };
const gated = { uid: 'a', gated: true, ready: false };

describe('hasArrived', () => {
  it('takes a stage for done when another pod of that name is gated', () => {
    expect(hasArrived('stage', running, { ...running, ready: false })).toBe(false);
    expect(hasArrived('stage', running, { uid: 'b', gated: true, ready: false })).toBe(true);
  });

  it('takes a restore for done when the same pod is Ready', () => {
    expect(hasArrived('restore', gated, { uid: 'a', gated: false, ready: false })).toBe(false);
    expect(hasArrived('restore', gated, running)).toBe(true);
    expect(hasArrived('restore', gated, { ...running, uid: 'b' })).toBe(false);
  });
});
