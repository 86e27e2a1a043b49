import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeSchema } from '../../scripts/schema.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';

const migrations = join(import.meta.dirname, '..', '..', 'migrations');
let database: TestDatabase;
beforeAll(async () => {
  database = await cloneDatabase();
});
afterAll(() => database.drop());

it('is what migrations/schema.txt says (vitest -u rewrites it)', async () => {
  await expect(await describeSchema(database.url)).toMatchFileSnapshot(join(migrations, 'schema.txt'));
});

it('has migrations that are numbered without a gap and never edited', async () => {
  const files = readdirSync(migrations)
    .filter((name) => name.endsWith('.sql'))
    .sort();
  expect(files.map((name) => Number(name.slice(0, 4)))).toEqual(files.map((_name, index) => index + 1));
  const sums = files.map(
    (name) =>
      `${name} ${createHash('sha256')
        .update(readFileSync(join(migrations, name)))
        .digest('hex')}`,
  );
  await expect(`${sums.join('\n')}\n`).toMatchFileSnapshot(join(migrations, 'checksums.txt'));
});
