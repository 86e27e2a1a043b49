// npm run verify-history
// Proves that nobody changed what happened: every hash chain again from its rows, and against the heads that were
// exported to the bucket day by day. One sentence for each finding, and exit 1; exit 2 when it could not be looked at.
import { createDatabase } from '../src/lib/adapters/postgres/index.ts';
import { createObjectStore } from '../src/lib/adapters/s3/index.ts';
import { loadConfig, required } from '../src/lib/config.ts';
import { verifyChains, verifyHeads } from '../src/lib/history/index.ts';

const config = loadConfig(process.env);
const db = createDatabase({ url: config.DATABASE_URL, poolMax: 1, connectTimeoutMs: 10_000 });
const store = createObjectStore({
  region: config.AWS_REGION,
  bucket: required(config, 'WARREN_BUCKET'),
  pathStyle: config.AWS_ENDPOINT_URL_S3 !== undefined,
});
let findings = 0;
const report = (sentence: string) => {
  findings += 1;
  console.log(sentence);
};
try {
  const { subjects, entries } = await verifyChains(db, report);
  const days = await verifyHeads(db, store, report);
  const looked = `${entries} entries of ${subjects} subjects, compared with the heads of ${days} days`;
  console.log(findings === 0 ? `History is whole: ${looked}.` : `${findings} findings in ${looked}.`);
  process.exitCode = findings === 0 ? 0 : 1;
} catch (error) {
  console.error(`History could not be verified: ${error instanceof Error ? error.message : error}`);
  process.exitCode = 2;
} finally {
  await store.close();
  await db.close();
}
