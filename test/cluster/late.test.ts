import { afterAll, beforeAll, expect, test } from 'vitest';
import type { AssistantTarget } from '../../src/lib/ports-assistant.ts';
import { Stack } from './kit.ts';
import { Life } from './life.ts';
import { type Ports, type Run, startLine } from './line.ts';

const stack = new Stack();

beforeAll(() => stack.warm(4));

/** A call that a run is about to make, held back until the test lets it go. */
interface Held {
  readonly to: AssistantTarget;
  readonly ports: Ports;
  readonly result: Promise<unknown>;
}

/** Holds back the first restore of an archive that a run of this instance begins. */
function holdRestore(life: Life, until: Promise<void>) {
  const began = Promise.withResolvers<Held>();
  let isHeld = false;
  const ports = (run: Run, given: Ports): Ports => {
    if (run.instance_id !== life.id || run.kind !== 'restore') return given;
    const restoreBackup: Ports['assistant']['restoreBackup'] = async (to, id, agents) => {
      if (isHeld) return given.assistant.restoreBackup(to, id, agents);
      isHeld = true;
      const result = until.then(() => given.assistant.restoreBackup(to, id, agents));
      began.resolve({ to, ports: given, result: result.catch((error: unknown) => error) });
      return await result;
    };
    const assistant = new Proxy(given.assistant, {
      get: (target, property, receiver) =>
        property === 'restoreBackup' ? restoreBackup : Reflect.get(target, property, receiver),
    });
    return { ...given, assistant };
  };
  return { ports, held: began.promise };
}

test('a rebuild whose runner stalls is ended by another; let go afterwards, it is refused with 401', async () => {
  const life = await Life.begin(stack, 'stalled');
  await life.say('once');
  await life.done('stage', { backup: 'required' });
  const end = Promise.withResolvers<void>();
  const { ports, held } = holdRestore(life, end.promise);
  const line = await startLine(stack, { ports });
  try {
    await life.done('restore', { from: 'snapshot' });
    await life.say('and later');
    const late = await held;
    end.resolve();
    // Where it wanted to go nobody may be any more: an error in any case, and never a restore.
    expect(await late.result).toBeInstanceOf(Error);
    const route = await life.route();
    const { address } = late.to;
    const there = { ...late.to, address: { ...address, pod_ip: new URL(route.endpoint?.url ?? '').hostname } };
    await expect(late.ports.assistant.restoreBackup(there, 'backup', ['default'])).rejects.toMatchObject({
      status: 401,
    });
    expect(await life.said(route)).toEqual(['once', 'and later']);
  } finally {
    end.resolve();
    await line.stop();
  }
});

afterAll(async () => {
  expect(await stack.oracle()).toEqual([]);
  await stack.close();
});
