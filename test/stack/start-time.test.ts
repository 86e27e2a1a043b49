// Starts that pull their image: drawn by the double, shown as a kubelet shows them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { change, type StartSettings, seeded } from '../../scripts/stack/double/control.ts';
import { dutyOf, type Pod } from '../../scripts/stack/double/objects.ts';
import { readyStatus, runningStatus } from '../../scripts/stack/double/pod-status.ts';
import { parseStartTime, pulls } from '../../scripts/stack/double/start-time.ts';
import { stagesOf } from '../../scripts/stack/kube/stages.ts';

const MIX = '70%:600ms;30%:pull:3500ms';
const STAGES = readFileSync(join(import.meta.dirname, '../../scripts/stack/kube/kwok-stages.yaml'), 'utf8');

const settings = (): StartSettings => ({ startTime: parseStartTime('0s'), random: Math.random });
const draws = ({ startTime, random }: StartSettings, count: number) =>
  Array.from({ length: count }, () => startTime(random));

test('a mix draws by its shares; what pulls runs no container for most of its start', () => {
  const mix = parseStartTime(MIX);
  expect(mix(() => 0.69)).toEqual({ ready: 600, pull: 0 });
  expect(mix(() => 0.7)).toEqual({ ready: 3_500, pull: 2_800 });
  expect(pulls(MIX)).toBe(true);
  expect(pulls('8s..14s')).toBe(false);
});

test.each(['70%:600ms;20%:pull:3s', '70%:600ms', '50%:soon;50%:1s', 'pull:', '2s;2s'])('%s is refused', (text) => {
  expect(() => parseStartTime(text)).toThrow(/start time "/);
});

test('a seed repeats the starts, and a shift comes after so many of them', () => {
  const body = JSON.stringify({ start_time: MIX, seed: 7, shift: { after: 50, start_time: '30%:1s;70%:pull:9s' } });
  const [one, two] = [settings(), settings()];
  for (const each of [one, two]) change(each, body, true);
  const drawn = draws(one, 100);
  expect(draws(two, 100)).toEqual(drawn);
  expect(drawn.slice(0, 50).every(({ ready }) => ready === 600 || ready === 3_500)).toBe(true);
  expect(drawn.slice(50).every(({ ready }) => ready === 1_000 || ready === 9_000)).toBe(true);
});

test('random numbers from a seed are spread evenly', () => {
  const random = seeded(1);
  const numbers = Array.from({ length: 10_000 }, random);
  expect(Math.min(...numbers)).toBeGreaterThanOrEqual(0);
  expect(Math.max(...numbers)).toBeLessThan(1);
  expect(numbers.reduce((sum, each) => sum + each, 0) / numbers.length).toBeCloseTo(0.5, 1);
});

test('a change that is wrong changes nothing', () => {
  const now = settings();
  const before = { ...now };
  expect(() => change(now, '{}', true)).toThrow(/start_time/);
  expect(() => change(now, JSON.stringify({ start_time: '1s', seed: 1.5 }), true)).toThrow(/seed/);
  expect(() => change(now, JSON.stringify({ start_time: '1s', shift: { after: -1, start_time: '2s' } }), true)).toThrow(
    /shift/,
  );
  expect(() => change(now, JSON.stringify({ start_time: MIX }), false)).toThrow(/--start-time/);
  expect(now).toEqual(before);
});

test('a stack has one of the two stages that begin an assistant', () => {
  const names = (text: string) => [...text.matchAll(/^ {2}name: (\S+)$/gm)].map(([, name]) => name);
  const all = names(STAGES);
  expect(names(stagesOf(STAGES, false))).toEqual(all.filter((name) => name !== 'assistant-creating'));
  expect(names(stagesOf(STAGES, true))).toEqual(all.filter((name) => name !== 'assistant-running'));
  expect(() => stagesOf('', true)).toThrow(/assistant-running/);
});

test('a pod whose containers were made waits for its image, then runs, then is Ready', () => {
  const waiting = { ready: false, state: { waiting: { reason: 'PodInitializing' } } };
  const pod: Pod = {
    metadata: { name: 'p', uid: 'u' },
    spec: { nodeName: 'n1', containers: [{ name: 'assistant' }] },
    status: {
      phase: 'Pending',
      podIP: '127.10.0.2',
      initContainerStatuses: [{ name: 'post-init', ...waiting }],
      containerStatuses: [{ name: 'assistant', ...waiting }],
    },
  };
  const now = new Date('2026-11-30T08:00:00.123Z');
  expect(dutyOf(pod)).toBe('pull');
  const running = { ...pod, status: { ...pod.status, ...runningStatus(pod, now) } };
  expect(dutyOf(running)).toBe('run');
  expect(running.status.initContainerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 0 });
  expect(readyStatus(running, now)).toMatchObject({
    conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: '2026-11-30T08:00:00Z' }, {}],
    containerStatuses: [{ ready: true, state: { running: {} } }],
  });
});
