import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { identify, isRunning, startTimeOf } from '../../scripts/stack/identity.ts';
import { lockOwner, tryLock, unlock, withLock } from '../../scripts/stack/lock.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stack-lock-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const STAT = '4242 (a (strange) name) S 1 4242 4242 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 11 0 987654 1000 200';

test('the start time is read past a name with blanks and brackets', () => {
  expect(startTimeOf(STAT)).toBe('987654');
});

test('a zombie has ended', () => {
  expect(startTimeOf(STAT.replace(') S ', ') Z '))).toBeUndefined();
});

test('a pid that was given to another process is not the one we knew', () => {
  const known = { pid: 4242, started: '987654' };
  expect(isRunning(known, () => '987654')).toBe(true);
  expect(isRunning(known, () => '999999')).toBe(false);
  expect(isRunning(known, () => undefined)).toBe(false);
});

test('a lock of a living process is refused, and given back only by its holder', () => {
  const lock = join(folder, 'a');
  expect(tryLock(lock)).toBe(true);
  expect(tryLock(lock)).toBe(false);
  expect(lockOwner(lock)).toEqual(identify(process.pid));
  unlock(lock);
  expect(tryLock(lock)).toBe(true);
});

test('a lock whose owner has ended is taken over, also when its pid lives again', () => {
  const lock = join(folder, 'b');
  mkdirSync(lock);
  writeFileSync(join(lock, 'owner.json'), JSON.stringify({ pid: process.pid, started: 'another life' }));
  expect(tryLock(lock)).toBe(true);
  expect(lockOwner(lock)).toEqual(identify(process.pid));
});

test('a lock without an owner is somebody at work first, and left over later', () => {
  const lock = join(folder, 'c');
  mkdirSync(lock);
  expect(tryLock(lock)).toBe(false);
  utimesSync(lock, new Date(0), new Date(0));
  expect(tryLock(lock)).toBe(true);
});

test('work under a lock waits for the holder, and gives the lock back when it fails', async () => {
  const lock = join(folder, 'd');
  tryLock(lock);
  const waits: number[] = [];
  const work = withLock(
    lock,
    (owner) => waits.push(owner),
    () => Promise.reject(new Error('no')),
  );
  unlock(lock);
  await expect(work).rejects.toThrow('no');
  expect(waits).toEqual([process.pid]);
  expect(tryLock(lock)).toBe(true);
});
