import fc from 'fast-check';
import { test } from 'vitest';
import { cloneDatabase } from '../setup/database.ts';
import { schedule } from './events.ts';
import { openStage } from './search.ts';

test('stats', { timeout: 600_000 }, async () => {
  const database = await cloneDatabase();
  const stage = await openStage(database.url);
  const n = new Map<string, number>();
  const up = (k: string) => n.set(k, (n.get(k) ?? 0) + 1);
  for (const each of fc.sample(schedule, 300)) {
    const world = await stage.run(each);
    for (const o of world.judge.view.operations) up(`op ${o.kind} ${o.status} ${o.error?.code ?? ''}`);
    for (const s of world.judge.view.slots) up(`slot ${s.state}`);
    for (const i of world.judge.view.instances) up(`inst ${i.observed_state}`);
    for (const l of world.trace.lines) {
      const m = /\[\d+\] (\S+) .*(stalls|crashes|no call|no answer) (?:of )?(before|after|hook)? ?(\S+)/.exec(l);
      if (m) up(`mishap ${m[2]} ${m[3]} ${m[4]} (${m[1]})`);
      const f = /(fault|thrown): (.{0,60})/.exec(l);
      if (f) up(`${f[1]} ${f[2]?.replace(/[0-9a-f-]{20,}|inst#\d+|\w+#\d+/g, '…')}`);
      const w = / s {2}(?: {3})?(\w+)/.exec(l);
      if (/^ +[\d.]+ s {2}(\w+)/.test(l))
        up(`event ${w?.[1]}${/: (no |nobody|nothing|nothing is)/.test(l) ? ' (idle)' : ''}`);
      if (/refused:/.test(l)) up(l.slice(12).trim());
    }
  }
  console.log(
    [...n]
      .sort((a, b) => a[0].localeCompare(b[0]))
      .map(([k, v]) => `${v}\t${k}`)
      .join('\n'),
  );
  await stage.close();
  await database.drop();
});
