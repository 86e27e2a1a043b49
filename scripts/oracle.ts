// npm run oracle: judges the running stack whose .stack/env is in the environment (or in .stack). Exit 1 on a finding.
import { existsSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { runOracle } from '../test/oracle/index.ts';
import { parseDotenv } from './stack/env.ts';
import { layoutFrom } from './stack/layout.ts';

const { values } = parseArgs({ options: { settle: { type: 'string', default: '75' }, running: { type: 'boolean' } } });
const { envFile } = layoutFrom(process.env);
const env = { ...(existsSync(envFile) ? parseDotenv(readFileSync(envFile, 'utf8')) : {}), ...process.env };
const found = await runOracle(env, { settleMs: Number(values.settle) * 1000, running: values.running ?? false });
for (const { rule, message } of found) console.log(`${rule}: ${message}`);
console.log(found.length === 0 ? 'the oracle is silent' : `${found.length} findings`);
process.exit(found.length === 0 ? 0 : 1);
