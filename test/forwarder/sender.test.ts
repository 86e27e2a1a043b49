import { describe, expect, it } from 'vitest';
import { CoalescingQueue } from '../../src/forwarder/coalescing-queue.ts';
import { createMetrics } from '../../src/forwarder/metrics.ts';
import { Sender } from '../../src/forwarder/sender.ts';
import type { Observation } from '../../src/lib/domain/observation.ts';
import { entropy, eventually, MemorySink, podGone, podSeen, silent } from './support.ts';

function setup(limit = 1_000) {
  const queue = new CoalescingQueue(limit, entropy.now);
  const sink = new MemorySink();
  const relists: number[] = [];
  const metrics = createMetrics({ depth: () => 0, oldestAge: () => 0, lostDeletions: () => 0 });
  const sender = new Sender({
    queue,
    sink,
    entropy,
    metrics,
    log: silent,
    relist: () => relists.push(Date.now()),
    backoffMs: { base: 4, cap: 20 },
  });
  const put = (...seen: Observation[]) => {
    for (const each of seen) {
      queue.put('c', each);
      sender.wake();
    }
  };
  return { queue, sink, sender, put, relists };
}

describe('the sender', () => {
  it('sends at once when idle, all of one turn together', async () => {
    const { sink, put, sender } = setup();
    put(podSeen('a', 'u1', 1), podSeen('b', 'u2', 2));
    await eventually(() => sink.batches.length === 1, 'a batch');
    expect(sink.arrived).toEqual(['a u1 1', 'b u2 2']);
    await sender.drain(1_000);
  });

  it('batches under load, in at most four sends at a time', async () => {
    const { sink, put, sender } = setup(10_000);
    sink.latencyMs = 20;
    for (let n = 0; n < 60; n += 1) {
      put(...Array.from({ length: 20 }, (_, i) => podSeen(`p${n}-${i}`, 'u', n * 20 + i + 1)));
      await new Promise((done) => setImmediate(done));
    }
    expect(await sender.drain(5_000)).toBe(true);
    expect(sink.arrived).toHaveLength(1_200);
    expect(sink.attempts).toBeLessThan(15);
  });

  it('never lets a newer state overtake one that is being sent, also when sends fail', async () => {
    const { sink, put, sender } = setup();
    let flip = 0;
    sink.answer = () => {
      flip += 1;
      return flip % 3 === 0 ? { sent: true } : { sent: false, refused: false, why: 'InternalError' };
    };
    for (let version = 1; version <= 30; version += 1) {
      put(podSeen('a', 'u1', version));
      await new Promise((done) => setTimeout(done, 1));
    }
    expect(await sender.drain(5_000)).toBe(true);
    const versions = sink.arrived.map((each) => Number(each.split(' ')[2]));
    expect(versions).toEqual([...versions].sort((a, b) => a - b));
    expect(versions.at(-1)).toBe(30);
  });

  it('holds everything while the queue is away, merged, and sends it when it is back', async () => {
    const { sink, put, sender, relists } = setup();
    sink.away = true;
    put(podSeen('a', 'u1', 1));
    await eventually(() => sink.attempts > 2, 'some attempts');
    put(
      podSeen('a', 'u1', 2),
      podSeen('a', 'u1', 3),
      podGone('a', 'u1', 4),
      podSeen('a', 'u2', 5),
      podSeen('a', 'u2', 6),
    );
    sink.away = false;
    await eventually(() => sink.arrived.length === 4, 'all arrived');
    expect(sink.arrived).toEqual(['a u1 1', 'a u1 3', 'a u1 4 deleted', 'a u2 6']);
    expect(relists).toHaveLength(0);
    await sender.drain(1_000);
  });

  it('asks for a relist, once, when states were dropped', async () => {
    const { sink, put, sender, relists } = setup(5);
    sink.away = true;
    put(podSeen('first', 'u', 1));
    await eventually(() => sink.attempts > 0, 'an attempt');
    put(...Array.from({ length: 30 }, (_, n) => podSeen(`p${n}`, 'u', n + 2)));
    await eventually(() => sink.attempts > 3, 'more attempts');
    expect(relists).toHaveLength(0);
    sink.away = false;
    await eventually(() => relists.length === 1, 'a relist');
    put(podSeen('p1', 'u', 100));
    expect(await sender.drain(1_000)).toBe(true);
    expect(sink.arrived.at(-1)).toBe('p1 u 100');
    expect(relists).toHaveLength(1);
  });

  it('drops what the queue refuses for good, so that the name is not held back for ever', async () => {
    const { sink, put, sender } = setup();
    sink.answer = (body) =>
      body.includes('bad') ? { sent: false, refused: true, why: 'InvalidMessageContents' } : { sent: true };
    put(podSeen('bad', 'u1', 1));
    await eventually(() => sink.attempts === 1, 'an attempt');
    put(podSeen('good', 'u2', 2));
    expect(await sender.drain(1_000)).toBe(true);
    expect(sink.arrived).toEqual(['good u2 2']);
  });

  it('gives up draining at its limit and says so', async () => {
    const { sink, put, sender, queue } = setup();
    sink.away = true;
    put(podSeen('a', 'u1', 1));
    const started = Date.now();
    expect(await sender.drain(80)).toBe(false);
    expect(Date.now() - started).toBeLessThan(1_000);
    expect(queue.empty).toBe(false);
  });
});
