// npm run guard [-- acknowledge KIND]
// Shows what the guard holds back (invariant 13), or lets subtractive steps go on for a kind of absence.
import { userInfo } from 'node:os';
import { createDatabase } from '../src/lib/adapters/postgres/index.ts';
import { loadConfig } from '../src/lib/config.ts';
import { acknowledgeGuard } from '../src/lib/saga/guard.ts';

const [verb, kind] = process.argv.slice(2);
if (verb !== undefined && (verb !== 'acknowledge' || kind === undefined)) {
  throw new Error('usage: npm run guard [-- acknowledge pod|claim|discovery]');
}
const db = createDatabase({ url: loadConfig(process.env).DATABASE_URL, poolMax: 1, connectTimeoutMs: 10_000 });
try {
  if (kind !== undefined) {
    const done = await acknowledgeGuard(db, kind, userInfo().username);
    console.log(done ? `Acknowledged: steps held for absent ${kind}s go on.` : `No guard stands for ${kind}.`);
  }
  const guards = await db.query('select kind, absent, expected, tripped_at, acknowledged_by from guard order by kind');
  console.log(guards.length === 0 ? 'No guard has tripped.' : JSON.stringify(guards, null, 2));
} finally {
  await db.close();
}
