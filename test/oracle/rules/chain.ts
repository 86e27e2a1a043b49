import { createHash } from 'node:crypto';
import type { Evidence, Finding, HistoryRow } from '../evidence.ts';

/** History is whole: no number is missing, and each hash follows from the entry and the one before. */
export function chain({ history, registry }: Evidence): Finding[] {
  const found: Finding[] = [];
  const rows = Map.groupBy(history, ({ subject }) => subject);
  for (const [subject, some] of rows) {
    some.sort((one, two) => one.seq - two.seq);
    found.push(...links(subject, some));
    const last = some.at(-1);
    const head = registry.heads.get(subject);
    if (head?.seq !== last?.seq || head?.head !== last?.hash) {
      found.push({
        rule: 'chain',
        message: `${subject}: the chain's head is ${head?.seq}, the last entry ${last?.seq}`,
      });
    }
  }
  for (const subject of registry.heads.keys()) {
    if (!rows.has(subject)) found.push({ rule: 'chain', message: `${subject}: has a head and no entries` });
  }
  return found;
}

function links(subject: string, rows: readonly HistoryRow[]): Finding[] {
  let head = '';
  return rows.flatMap((row, index) => {
    const due = createHash('sha256').update(`${head}|${row.text}`).digest('hex');
    head = row.hash;
    if (row.seq !== index + 1) return [{ rule: 'chain', message: `${subject}: entry ${index + 1} is missing` }];
    return row.hash === due
      ? []
      : [{ rule: 'chain', message: `${subject}: entry ${row.seq} (${row.action}) was changed` }];
  });
}
